// What a search finds: the page of an operator comes before others, and pages of many names come last.
var Scorer = {
  score: ([page, , , , score]) =>
    score +
    (page.startsWith("operators/") && page !== "operators/index" ? 3 : 0) -
    (["benchmarks", "changelog", "coming_from", "contributing", "reference"].includes(page.split("/")[0]) ? 1 : 0),

  // The rest is as Sphinx has it.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
