from collections import defaultdict
from enum import Enum


class HookType(Enum):
    AROUND = "around"


class HookRegistry:
    _hooks = defaultdict(list)

    @classmethod
    def register(cls, target, hook, hook_type, *, source=None):
        cls._hooks[target].append((hook_type, hook, source))
