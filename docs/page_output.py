"""A Sphinx directive, `output`: shows code, and what it prints where the site is built, after the doctests above it."""

import doctest
import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)  # for the tests of the page alone


class Output(SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        code = "\n".join(self.content)
        page = Path(self.env.doc2path(self.env.docname)).read_text()
        scope: dict[str, Any] = {}
        with redirect_stdout(io.StringIO()):
            for example in doctest.DocTestParser().get_examples(COMMENT.sub("", page.partition(code)[0])):
                exec(compile(example.source, self.env.docname, "single"), scope)
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, self.env.docname, "exec"), scope)
        return [
            nodes.literal_block(code, code, language="python"),
            nodes.literal_block(printed.getvalue(), printed.getvalue(), language="text"),
        ]


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.add_directive("output", Output)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
