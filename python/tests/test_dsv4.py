"""DeepSeek-V4's layers, against attention from the definition."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sixwarp import dsv4

HEADS, PAGE = 4, 16


def rows(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, dsv4.DIM, generator=generator).bfloat16()


def reference(q, keys, sinks):
    """One query `[heads, 512]` on rows `[n, 512]`, in float64."""
    s = q.double() @ keys.double().T / dsv4.DIM**0.5
    weights = torch.softmax(torch.cat([s, sinks.double()[:, None]], 1), 1)[:, :-1]
    return weights @ keys.double(), torch.logsumexp(s, 1)


def check(got, wants):
    out, lse = got
    for i, (want, want_lse) in enumerate(wants):
        torch.testing.assert_close(out[i].double(), want, atol=1e-2, rtol=1e-2)
        torch.testing.assert_close(lse.reshape(len(wants), -1)[i].double(), want_lse, atol=1e-4, rtol=0)


def setup(requests=3):
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(requests, HEADS, dsv4.DIM, generator=generator).bfloat16()
    sinks = torch.randn(HEADS, generator=generator)
    return q, sinks, generator


def lists(generator, requests, width, total, used):
    table = torch.full((requests, width), -1, dtype=torch.int32)
    for i, n in enumerate(used):
        table[i, :n] = torch.randperm(total, generator=generator)[:n].int()
    return table


@pytest.mark.parametrize("packed", [False, True])
def test_csa_decode_reads_both_lists_under_one_softmax(packed):
    q, sinks, generator = setup()
    window, compressed = rows(10 * PAGE, 1), rows(20 * PAGE, 2)
    near = lists(generator, 3, dsv4.WINDOW, len(window), [128, 5, 0])
    far = lists(generator, 3, 64, len(compressed), [64, 0, 9])
    if packed:
        pools = [dsv4.pack_rows(x, PAGE) for x in (window, compressed)]
        window, compressed = (
            dsv4.unpack_rows(pool, len(x), PAGE).bfloat16() for pool, x in zip(pools, (window, compressed))
        )
    else:
        pools = [x.reshape(-1, PAGE, dsv4.DIM) for x in (window, compressed)]
    got = dsv4.decode(
        q, pools[0], near, sinks, page_rows=PAGE, compressed=pools[1], compressed_lists=far
    )
    pick = lambda table, x: x[table[table >= 0].long()]
    keys = [torch.cat([pick(near[i], window), pick(far[i], compressed)]) for i in range(3)]
    check(got, [reference(q[i], keys[i], sinks) for i in range(3)])


def test_hca_decode_reads_all_rows_of_its_pages():
    q, sinks, generator = setup(requests=2)
    window, compressed = rows(10 * PAGE, 1), rows(8 * PAGE, 2)
    near = lists(generator, 2, dsv4.WINDOW, len(window), [128, 40])
    table = torch.tensor([[5, 2, 7], [0, 1, 3]], dtype=torch.int32)
    lengths = torch.tensor([37, 0], dtype=torch.int32)
    pools = [x.reshape(-1, PAGE, dsv4.DIM) for x in (window, compressed)]
    got = dsv4.decode(
        q, pools[0], near, sinks, page_rows=PAGE, compressed=pools[1], page_table=table,
        compressed_lengths=lengths,
    )  # fmt: skip
    far = [pools[1][table[i].long()].reshape(-1, dsv4.DIM)[: lengths[i]] for i in range(2)]
    keys = [torch.cat([window[near[i][near[i] >= 0].long()], far[i]]) for i in range(2)]
    check(got, [reference(q[i], keys[i], sinks) for i in range(2)])


def test_csa_prefill_reads_a_list_per_token():
    q, sinks, generator = setup(requests=5)
    window, compressed = rows(127 + 5, 1), rows(90, 2)
    far = lists(generator, 5, 70, len(compressed), [70, 0, 1, 64, 65])
    out, lse = dsv4.prefill(q, window, sinks, compressed=compressed, compressed_lists=far)
    pick = lambda i: compressed[far[i][far[i] >= 0].long()]
    wants = [reference(q[i], torch.cat([window[i : i + 128], pick(i)]), sinks) for i in range(5)]
    check((out, lse[0].T), wants)
    apart = torch.full((5, 100), 2**31 - 1, dtype=torch.int32)
    apart[:, :70] = far
    again = dsv4.prefill(q, window, sinks, compressed=compressed, compressed_lists=apart[:, :70])
    assert torch.equal(again[0], out) and torch.equal(again[1], lse)


def test_a_few_tokens_of_a_request_have_lists_and_lengths_of_their_own():
    q, sinks, generator = setup(requests=6)
    window, compressed = rows(10 * PAGE, 1), rows(9 * PAGE, 2)
    near = lists(generator, 6, dsv4.WINDOW, len(window), [128, 5, 0, 9, 1, 128])
    table = torch.tensor([[5, 2, 7], [0, 1, 3]], dtype=torch.int32)
    used, seen = torch.tensor([[120, 5, 0], [9, 0, 64]]), torch.tensor([[37, 38, 39], [0, 0, 1]])
    out, lse = dsv4.decode(
        q.unflatten(0, (2, 3)), window.reshape(-1, PAGE, dsv4.DIM), near.unflatten(0, (2, 3)), sinks,
        window_lengths=used, compressed=compressed.reshape(-1, PAGE, dsv4.DIM), page_table=table,
        compressed_lengths=seen,
    )  # fmt: skip
    assert out.shape == (2, 3, HEADS, dsv4.DIM) and lse.shape == (2, HEADS, 3)
    keys = []
    for i in range(6):
        entries = near[i, : used.flatten()[i]]
        far = compressed.reshape(-1, PAGE, dsv4.DIM)[table[i // 3].long()].reshape(-1, dsv4.DIM)
        keys.append(torch.cat([window[entries[entries >= 0].long()], far[: seen.flatten()[i]]]))
    wants = [reference(q[i], keys[i], sinks) for i in range(6)]
    check((out.flatten(0, 1), lse.swapaxes(1, 2).flatten(0, 1)), wants)


def test_entries_that_name_no_row_are_skipped():
    q, sinks, generator = setup()
    pool = rows(2 * PAGE, 1).reshape(2, PAGE, dsv4.DIM)
    near = lists(generator, 3, dsv4.WINDOW, 2 * PAGE, [9, 5, 1])
    want = dsv4.decode(q, pool, near, sinks)
    near[near < 0] = torch.tensor([2 * PAGE, 2**31 - 1, -(2**31)], dtype=torch.int32).repeat(128)[: (near < 0).sum()]
    assert all(torch.equal(x, y) for x, y in zip(dsv4.decode(q, pool, near, sinks), want))


def test_arrays_of_numpy_are_read_as_tensors_of_torch_are():
    q, sinks, generator = setup()
    pages = dsv4.pack_rows(rows(3 * PAGE, 1), PAGE)[:, : PAGE * 584].unflatten(1, (PAGE, 1, 584))
    near = lists(generator, 3, dsv4.WINDOW, 3 * PAGE, [9, 5, 0])
    bf16 = pytest.importorskip("ml_dtypes").bfloat16
    array = q.view(torch.int16).numpy().view(bf16)
    apart = np.full((3, 200), 7, np.int32)
    apart[:, :128] = near
    for entries in (near.numpy(), apart[:, :128], near.numpy().astype(np.int64), np.asfortranarray(near)):
        out, lse = dsv4.decode(array, pages.numpy(), entries, sinks.numpy())
        want, want_lse = dsv4.decode(q, pages, near, sinks)
        assert np.array_equal(out.astype(np.float32), want.float().numpy()) and np.array_equal(lse, want_lse.numpy())
    nothing, _ = dsv4.decode(array[:0], pages.numpy(), near.numpy()[:0], sinks.numpy())
    assert nothing.shape == (0, HEADS, dsv4.DIM)
    nothing, lse = dsv4.decode(
        q[:0, None], pages, near[:0], sinks, window_lengths=torch.zeros(0, 1, dtype=torch.int32)
    )
    assert nothing.shape == (0, 1, HEADS, dsv4.DIM) and lse.shape == (0, HEADS, 1)


def test_pages_and_rows_between_others_are_found():
    q, sinks, generator = setup()
    pool = rows(8 * PAGE, 1).reshape(8, PAGE, dsv4.DIM)
    near = lists(generator, 3, dsv4.WINDOW, 4 * PAGE, [60, 5, 0])
    wider = torch.full((4, PAGE + 3, 2 * dsv4.DIM), torch.nan).bfloat16()
    wider[:, :PAGE, : dsv4.DIM] = pool[:4]
    dense = dsv4.decode(q, pool[:4], near, sinks, page_rows=PAGE)
    apart = dsv4.decode(q, wider[:, :PAGE, : dsv4.DIM], near, sinks, page_rows=PAGE)
    assert all(torch.equal(x, y) for x, y in zip(dense, apart))


def test_hca_prefill_sees_rows_from_their_last_token_on():
    q, sinks, _ = setup(requests=6)
    position, before = 254, 127
    window, compressed = rows(before + 6, 1), rows(4, 2)
    got = dsv4.prefill(q, window, sinks, compressed=compressed, position=position)
    wants = []
    for i in range(6):
        end = before + i + 1
        seen = compressed[: (position + i + 1) // 128]
        wants.append(reference(q[i], torch.cat([window[end - 128 : end], seen]), sinks))
    out, lse = got
    check((out, lse[0].T), wants)


def test_packed_rows_survive_unpacking_within_their_format():
    x = rows(40, 3)
    pages = dsv4.pack_rows(x, PAGE)
    assert pages.shape == (3, dsv4.page_bytes(PAGE))
    back = dsv4.unpack_rows(pages, 40, PAGE)
    assert torch.equal(back[:, 448:].bfloat16(), x[:, 448:])
    torch.testing.assert_close(back[:, :448], x[:, :448].float(), atol=0.02, rtol=0.07)
    again = dsv4.unpack_rows(dsv4.pack_rows(back.bfloat16(), PAGE), 40, PAGE)
    assert torch.equal(again, back), "what the format holds, it keeps"


def test_mistakes_are_named():
    q, sinks, generator = setup()
    pool = rows(PAGE, 1).reshape(1, PAGE, dsv4.DIM)
    near = lists(generator, 3, dsv4.WINDOW, PAGE, [1, 1, 1])
    with pytest.raises(ValueError, match="compressed rows need"):
        dsv4.decode(q, pool, near, sinks, page_rows=PAGE, compressed=pool)
    with pytest.raises(ValueError, match="window has shape"):
        dsv4.decode(q, pool, near, sinks, page_rows=8)
    turned = pool.transpose(1, 2).contiguous().transpose(1, 2)
    with pytest.raises(ValueError, match="rows must be contiguous"):
        dsv4.decode(q, turned, near, sinks, page_rows=PAGE)
    with pytest.raises(ValueError, match=r"window_lengths: entry 1 must lie in 0..=128"):
        dsv4.decode(q, pool, near, sinks, window_lengths=torch.tensor([0, 129, 0]))


def test_rows_are_512_wide_and_pages_what_they_hold():
    x = rows(5, 3)
    for wrong in (x[:, :511].contiguous(), x.reshape(-1), x.reshape(5, 2, 256), torch.zeros(5, 1).bfloat16()):
        with pytest.raises(ValueError, match=r"rows has shape .*: \[n, 512\] is needed"):
            dsv4.pack_rows(wrong)
    for wrong in (x.float(), torch.zeros(5, 1024).bfloat16()[:, ::2], x.half()):
        with pytest.raises(ValueError, match="rows is .*: contiguous bf16 on the CPU is needed"):
            dsv4.pack_rows(wrong)
    for wrong, kind in ((0, ValueError), (-64, ValueError), (2.5, TypeError), (None, TypeError)):
        with pytest.raises(kind, match="page_rows is"):
            dsv4.pack_rows(x, wrong)
        with pytest.raises(kind, match="page_rows is"):
            dsv4.unpack_rows(dsv4.pack_rows(x), 5, wrong)
    pages = dsv4.pack_rows(x, PAGE)
    with pytest.raises(ValueError, match="pages has shape .*: 2 pages are needed for 17 rows"):
        dsv4.unpack_rows(pages, PAGE + 1, PAGE)
    with pytest.raises(ValueError, match="pages has shape"):
        dsv4.unpack_rows(pages[:, :-1].contiguous(), 5, PAGE)
    with pytest.raises(ValueError, match="rows is -1"):
        dsv4.unpack_rows(pages, -1, PAGE)
    with pytest.raises(TypeError, match="rows is None"):
        dsv4.pack_rows(None)
    assert dsv4.unpack_rows(dsv4.pack_rows(x[:0]), 0).shape == (0, 512)
    small = dsv4.pack_rows(x, np.int64(PAGE))
    assert torch.equal(dsv4.unpack_rows(small, np.uint8(5), np.int32(PAGE)), dsv4.unpack_rows(pages, 5, PAGE))


def test_without_sinks_there_is_no_sink():
    q, _, generator = setup()
    pool = rows(PAGE, 1).reshape(1, PAGE, dsv4.DIM)
    near = lists(generator, 3, dsv4.WINDOW, PAGE, [9, 1, 0])
    none = torch.full((HEADS,), -torch.inf)
    for with_none, without in (
        (dsv4.decode(q, pool, near, none, page_rows=PAGE), dsv4.decode(q, pool, near, None, page_rows=PAGE)),
        (dsv4.prefill(q, pool[0], none), dsv4.prefill(q, pool[0])),
    ):
        assert all(torch.equal(x, y) for x, y in zip(with_none, without))


def test_what_means_nothing_is_refused():
    q, sinks, generator = setup()
    pool = rows(PAGE, 1).reshape(1, PAGE, dsv4.DIM)
    near = lists(generator, 3, dsv4.WINDOW, PAGE, [1, 1, 1])
    table, lengths = torch.zeros(3, 1, dtype=torch.int32), torch.ones(3, dtype=torch.int32)
    decode = lambda **given: dsv4.decode(q, pool, near, sinks, page_rows=PAGE, **given)
    for name, value in dict(
        compressed_lists=near, page_table=table, compressed_lengths=lengths, compressed_page_rows=PAGE
    ).items():
        with pytest.raises(ValueError, match=f"{name} is given without compressed"):
            decode(**{name: value})
    with pytest.raises(ValueError, match="page_table is given beside compressed_lists"):
        decode(compressed=pool, compressed_lists=near, page_table=table)
    for name, value in dict(page_table=table, compressed_lengths=lengths).items():
        with pytest.raises(ValueError, match="compressed rows need"):
            decode(compressed=pool, **{name: value})
    prefill = lambda **given: dsv4.prefill(q, pool[0], sinks, **given)
    for name, value in dict(compressed_lists=near, position=0).items():
        with pytest.raises(ValueError, match=f"{name} is given without compressed"):
            prefill(**{name: value})
    with pytest.raises(ValueError, match="position is given beside compressed_lists"):
        prefill(compressed=pool[0], compressed_lists=near, position=3)
    for wrong, kind in ((-1, ValueError), (2**31, ValueError), (1.5, TypeError)):
        with pytest.raises(kind, match="position is"):
            prefill(compressed=pool[0], position=wrong)


def spoils(x):
    """Tensors that are not like `x`: shorter, of another type, without memory, negated, of another library."""
    emptied = x.clone()
    emptied.untyped_storage().resize_(0)
    yield from (x[:-1], x.reshape(-1)[:1], x.to(torch.complex64), x.to("meta"), emptied, torch._neg_view(x.float()))
    yield from (x.float().numpy(), x.tolist(), x.bool())


def test_spoiled_tensors_are_refused():
    q, sinks, generator = setup()
    pool = rows(2 * PAGE, 1).reshape(2, PAGE, dsv4.DIM)
    near = lists(generator, 3, dsv4.WINDOW, PAGE, [3, 1, 2])
    table, lengths = torch.zeros(3, 1, dtype=torch.int32), torch.ones(3, dtype=torch.int32)
    common = dict(q=q, window=pool, window_lists=near, sinks=sinks, compressed=pool)
    calls = [
        (dsv4.decode, dict(**common, compressed_lists=near), dict(page_rows=PAGE)),
        (dsv4.decode, dict(**common, page_table=table, compressed_lengths=lengths), dict(page_rows=PAGE)),
        (dsv4.prefill, dict(q=q, window=pool[0], sinks=sinks, compressed=pool[1], compressed_lists=near), {}),
    ]
    for call, tensors, options in calls:
        call(**tensors, **options)
        for name, x in tensors.items():
            for bad in spoils(x):
                if name in ("window", "compressed") and getattr(bad, "shape", ())[1:] == x.shape[1:] and bad.dtype == x.dtype:
                    if bad.device.type == "cpu" and bad.untyped_storage().nbytes():
                        continue  # fewer pages or rows are another call
                with pytest.raises((TypeError, ValueError)) as error:
                    call(**{**tensors, name: bad}, **options)
                assert any(other in str(error.value) for other in tensors), error.value


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layer", ["swa", "csa", "hca"])
def test_requests_at_different_positions_are_prefilled_from_pages(layer, packed):
    generator = torch.Generator().manual_seed(3)
    new, first = [3, 0, 5], [0, 9, 250]
    q = torch.randn(sum(new), HEADS, dsv4.DIM, generator=generator).bfloat16()
    sinks = torch.randn(HEADS, generator=generator)
    window, compressed = rows(24 * PAGE, 1), rows(6 * PAGE, 2)
    pools = [x.reshape(-1, PAGE, dsv4.DIM) for x in (window, compressed)]
    if packed:
        pools = [dsv4.pack_rows(x, PAGE) for x in (window, compressed)]
        window, compressed = (
            dsv4.unpack_rows(pool, len(x), PAGE).bfloat16() for pool, x in zip(pools, (window, compressed))
        )
    order = torch.randperm(24, generator=generator).int()
    table = torch.zeros(3, 16, dtype=torch.int32)
    table[0, :1], table[1, :1], table[2, 7:16] = order[:1], order[1:2], order[2:11]   # 250 - 127 is on page 7
    few = torch.randperm(6, generator=generator).int().reshape(3, 2)
    chosen = lists(generator, sum(new), 20, len(compressed), [20, 0, 3, 20, 1, 20, 7, 20])
    more = {"swa": {}, "csa": dict(compressed_lists=chosen), "hca": dict(page_table=few)}[layer]
    if more:
        more["compressed"] = pools[1]
    got = dsv4.prefill_pages(
        q, torch.tensor([0, 3, 3, 8]), torch.tensor(first), pools[0], table, sinks, longest=5, page_rows=PAGE, **more
    )
    wants, at = [], 0
    for request, (tokens, position) in enumerate(zip(new, first)):
        for p in range(position, position + tokens):
            near = [int(table[request, t // PAGE]) * PAGE + t % PAGE for t in range(max(0, p - 127), p + 1)]
            keys = window[near]
            if layer == "csa":
                keys = torch.cat([keys, compressed[chosen[at][chosen[at] >= 0].long()]])
            if layer == "hca":
                far = [int(few[request, r // PAGE]) * PAGE + r % PAGE for r in range((p + 1) // 128)]
                keys = torch.cat([keys, compressed[far]])
            wants.append(reference(q[at], keys, sinks))
            at += 1
    check((got[0], got[1][0].T), wants)


def test_prefill_from_pages_names_what_is_wrong():
    q, pages = torch.zeros(2, HEADS, dsv4.DIM), torch.zeros(2, PAGE, dsv4.DIM)
    ends, positions, table = torch.tensor([0, 2]), torch.tensor([0]), torch.zeros(1, 2, dtype=torch.int32)
    call = lambda **given: dsv4.prefill_pages(**{
        **dict(q=q, cu_seqlens=ends, positions=positions, window=pages, window_table=table), **given
    })  # fmt: skip
    assert call()[0].shape == q.shape
    for given, error in [
        (dict(cu_seqlens=torch.tensor([0, 1, 2])), "cu_seqlens has shape"),
        (dict(window_table=table[0]), "window_table has shape"),
        (dict(compressed=pages), "need compressed_lists"),
        (dict(page_table=table), "page_table is given without compressed"),
        (dict(compressed=pages, compressed_lists=table.expand(2, 2), page_table=table), "beside compressed_lists"),
        (dict(longest=-1), "longest"),
    ]:
        with pytest.raises(ValueError, match=error):
            call(**given)
