"""The error for a name that a module of the package lacks."""

from types import ModuleType

from .errors import meant
from .words_elsewhere import WORDS


def unknown_name(module: str, name: str, found_in: ModuleType) -> AttributeError:
    """Returns the error; for a word of another library, or a struct, it says which name of `found_in` is meant.

    Python itself suggests a similar name for any other one.
    """
    text = f"module {module!r} has no attribute {name!r}"
    is_struct = name.endswith("Desc")
    if not is_struct and name.casefold().replace("_", "") not in WORDS:
        return AttributeError(text)
    public = {n: value for n, value in vars(found_in).items() if n.endswith("Desc") == is_struct and n[0] != "_"}
    by_operator = {getattr(value, "operator_type", n): n for n, value in public.items()}
    known = meant(name.removesuffix("Desc"), by_operator)
    place = "dml_jax.descs" if is_struct else "dml_jax"
    near = "" if known is None else f"; did you mean '{place}.{by_operator[known]}'?"
    return AttributeError(text + near, name=name)  # without `obj` Python suggests nothing
