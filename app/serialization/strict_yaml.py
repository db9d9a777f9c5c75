"""StrictYamlLoader: a YAML loader that refuses duplicate keys."""

from collections.abc import Hashable
from typing import Any

import yaml


class StrictYamlLoader(yaml.SafeLoader):
    """Refuses duplicate keys: PyYAML would silently use the last value."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - the loader's signature
    ) -> dict[Hashable, Any]:
        """See the loader."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) < len(keys):
            raise yaml.constructor.ConstructorError(problem="duplicate key")
        return super().construct_mapping(node, deep)
