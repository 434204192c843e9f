"""Arrays of other libraries: JAX through DLPack, bfloat16 of ml_dtypes in NumPy, CuPy on a GPU."""

import numpy as np
import pytest

import sixwarp


def arrays(dtype=np.float32):
    rng = np.random.default_rng(0)
    make = lambda n, heads: rng.standard_normal((2, n, heads, 32), np.float32).astype(dtype)
    return make(3, 4), make(7, 2), make(7, 2)


def test_numpy_with_bfloat16():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    q, k, v = arrays(bfloat16)
    out = sixwarp.attention(q, k, v)
    assert out.dtype == bfloat16
    want = sixwarp.attention(*(x.astype(np.float32) for x in (q, k, v)))
    np.testing.assert_allclose(out.astype(np.float32), want, atol=2e-2)


@pytest.fixture
def jax():
    """JAX with new arrays in host memory, wherever else they could go."""
    jax = pytest.importorskip("jax")
    with jax.default_device(jax.devices("cpu")[0]):
        yield jax


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_jax_arrays_give_jax_arrays(jax, dtype):
    jnp = jax.numpy
    q, k, v = (jnp.asarray(x, dtype) for x in arrays())
    sinks, used = jnp.asarray([0.5, -1.0, 0.0, 9.0]), jnp.asarray([3, 7])
    out, lse = sixwarp.attention(q, k, v, causal=True, sinks=sinks, seqused_k=used, return_lse=True)
    assert isinstance(out, jax.Array) and isinstance(lse, jax.Array) and out.dtype == q.dtype
    as_numpy = [np.asarray(x, np.float32) for x in (q, k, v)]
    want, want_lse = sixwarp.attention(
        *as_numpy, causal=True, sinks=np.asarray(sinks), seqused_k=np.asarray(used), return_lse=True
    )
    np.testing.assert_allclose(np.asarray(out, np.float32), want, atol=2e-2)
    np.testing.assert_allclose(np.asarray(lse), want_lse, atol=2e-2)
    with pytest.raises(TypeError, match="out: arrays of jax"):
        sixwarp.attention(q, k, v, out=q)


def test_jax_parts_are_merged(jax):
    q, k, v = (jax.numpy.asarray(x) for x in arrays())
    parts = [sixwarp.attention(q, k[:, a:b], v[:, a:b], return_lse=True) for a, b in ((0, 2), (2, 7))]
    out, lse = sixwarp.merge(*zip(*parts))
    want, want_lse = sixwarp.attention(q, k, v, return_lse=True)
    assert isinstance(out, jax.Array)
    np.testing.assert_allclose(out, want, atol=1e-6)
    np.testing.assert_allclose(lse, want_lse, atol=1e-5)


def test_cupy_arrays_give_cupy_arrays():
    cupy = pytest.importorskip("cupy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        pytest.skip("there is no GPU")
    host = [np.tile(x, (1, 1, 1, 2)) for x in arrays(np.float16)]
    q, k, v = map(cupy.asarray, host)
    want, want_lse = sixwarp.attention(*host, causal=True, return_lse=True)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        out, lse = sixwarp.attention(q, k, v, causal=True, return_lse=True)
    stream.synchronize()
    assert isinstance(out, cupy.ndarray)
    np.testing.assert_allclose(cupy.asnumpy(out).astype(np.float32), want.astype(np.float32), atol=2e-2)
    np.testing.assert_allclose(cupy.asnumpy(lse), want_lse, atol=1e-3)


def test_jax_arrays_on_a_gpu_stay_there():
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    if jax.default_backend() != "gpu" or not torch.cuda.is_available():
        pytest.skip("JAX sees no GPU")
    host = [np.tile(x, (1, 1, 1, 2)) for x in arrays()]
    q, k, v = (jax.numpy.asarray(x, "bfloat16") for x in host)
    out = sixwarp.attention(q, k, v)
    assert out.devices() == q.devices()
    np.testing.assert_allclose(np.asarray(out, np.float32), sixwarp.attention(*host), atol=3e-2)
