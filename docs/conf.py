"""The documentation site: `python -m sphinx -W --keep-going docs build/site` builds it."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]  # the extensions, and benchmarks/

project = "dml_jax"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
extensions += ["operator_tables", "docstring_sections", "page_output", "stored_runs"]  # of this folder
exclude_patterns = ["models/*"]  # JSON files that are no stored runs

# Every reference must resolve; what other packages document is not looked up, since a build needs no network.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(collections|contextlib|jax|numpy|np|onnx|os|typing)\..*"),
    ("py:class", r"dml_jax\.core\.structs\.computation\.R"),  # a type variable
    ("py:class", r"dml_jax\.core\.supports_dtype\.SupportsDType"),  # such as jnp.float32
    ("py:class", r"dml_jax\.batch\.sources\.Slices"),  # an object with shape, dtype and slices
    (
        "py:class",
        r"dml_jax\.(core\.structs\.size_and_scale_bias\.ScaleAndBias|operators\._unary\.\w+Mode)",
    ),  # given as pairs and names
]

primary_domain = None  # `function` is the directive of operator_tables.py; Python's are `py:function` and so on

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

myst_heading_anchors = 3
smartquotes_action = "D"  # dashes only: quotes here are Python's

highlight_options = {"python": {"stripnl": True}}  # doctests end with an empty line

# Only what one types is copied: neither prompts nor what is printed.
copybutton_prompt_text = r">>> |\.\.\. |\$ |> "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "dml_jax"
html_static_path = ["style"]
html_css_files = ["site.css"]
html_search_scorer = str(DOCS / "style" / "scorer.js")
html_copy_source = False
html_show_copyright = False
