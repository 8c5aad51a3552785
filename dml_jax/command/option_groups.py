"""A Click command whose help lists options in groups, and whose options may have aliases."""

from collections.abc import Mapping, Sequence
from typing import Any

import click


class GroupedCommand(click.Command):
    """A command of many options.

    Args:
      groups: the parameters below each further title of the help; all others are "Options".
      aliases: the option, without dashes, that a spelling means.
    """

    def __init__(
        self, *arguments: Any, groups: Mapping[str, Sequence[str]], aliases: Mapping[str, str], **keywords: Any
    ):
        settings = {**(keywords.pop("context_settings", None) or {})}
        settings["token_normalize_func"] = lambda name: aliases.get(name, name)
        super().__init__(*arguments, context_settings=settings, **keywords)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        title_of = {name: title for title, names in self.groups.items() for name in names}
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        for title in ("Options", *self.groups):
            records = [o.get_help_record(ctx) for o in options if title_of.get(o.name or "", "Options") == title]
            with formatter.section(title):
                formatter.write_dl([record for record in records if record])
