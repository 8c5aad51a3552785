"""DirectML's feature levels."""

from __future__ import annotations

import enum

from ...errors import ConstraintError


class FeatureLevel(enum.IntEnum):
    """DML_FEATURE_LEVEL: each level has everything that the ones before it have."""

    FL_1_0 = 0x1000
    FL_2_0 = 0x2000
    FL_2_1 = 0x2100
    FL_3_0 = 0x3000
    FL_3_1 = 0x3100
    FL_4_0 = 0x4000
    FL_4_1 = 0x4100
    FL_5_0 = 0x5000
    FL_5_1 = 0x5100
    FL_5_2 = 0x5200
    FL_6_0 = 0x6000
    FL_6_1 = 0x6100
    FL_6_2 = 0x6200
    FL_6_3 = 0x6300
    FL_6_4 = 0x6400

    def __str__(self) -> str:
        return self.name.removeprefix("FL_")

    @classmethod
    def of(cls, value: FeatureLevel | str) -> FeatureLevel:
        """Reads a level: a `FeatureLevel`, or a string such as "3_0", "3.0" or "DML_FEATURE_LEVEL_3_0".

        Raises:
          ConstraintError: no level of DirectML.
        """
        if isinstance(value, cls):
            return value
        name = str(value).removeprefix("DML_FEATURE_LEVEL_").removeprefix("FL_").replace(".", "_")
        for level in cls:
            if name == str(level):
                return level
        raise ConstraintError(f"feature_level must be one of {', '.join(map(str, cls))}, but it is {value!r}.")


NEWEST = FeatureLevel.FL_6_4
