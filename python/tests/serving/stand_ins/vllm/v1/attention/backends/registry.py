from types import SimpleNamespace


class AttentionBackendEnum:
    __members__ = {}


def register_backend(backend, class_path=None, is_mamba=False):
    if backend in AttentionBackendEnum.__members__:
        raise ValueError(f"{backend} is registered already")
    AttentionBackendEnum.__members__[backend] = SimpleNamespace(name=backend, path=class_path)
