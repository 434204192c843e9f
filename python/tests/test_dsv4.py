"""DeepSeek-V4's layers, against attention from the definition."""

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
    near[1, 7] = PAGE
    with pytest.raises(ValueError, match=r"indices: entry \[1,7\] must be below 16"):
        dsv4.decode(q, pool, near, sinks, page_rows=PAGE)
