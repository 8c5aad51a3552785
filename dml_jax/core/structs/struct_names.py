"""The name of a struct's class, MaxPooling1Desc, and DirectML's name of its operator, MAX_POOLING1."""

from __future__ import annotations

import re


def operator_type_of(class_name: str) -> str:
    """Returns DirectML's name of an operator, from the name of its class.

    Raises:
      TypeError: the class has no such name.
    """
    stem = class_name.removesuffix("Desc")
    words = re.findall("[A-Z]+[a-z0-9]*", stem)
    if "".join(words) != stem or stem in (class_name, ""):
        raise TypeError(
            f"{class_name}: its name must be that of DirectML's struct, as MaxPooling1Desc for "
            "DML_MAX_POOLING1_OPERATOR_DESC; or give operator_type; or is_base=True, if it is only a base of structs"
        )
    return "_".join(words).upper()


def class_name_of(operator_type: str) -> str:
    """Returns the name of the class of an operator: ElementWiseAbsDesc of ELEMENT_WISE_ABS."""
    return "".join(map(str.capitalize, operator_type.split("_"))) + "Desc"
