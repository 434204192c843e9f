import torch


def reshape_and_cache_flash(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, k_scale, v_scale):
    # Nothing is read back, so that graphs can be captured: padding is written to a place that is then restored.
    valid = (slot_mapping >= 0)[:, None, None]
    places = slot_mapping.clamp(min=0)
    place = (places // key_cache.shape[1], places % key_cache.shape[1])
    for rows, pages, scale in ((key, key_cache, k_scale), (value, value_cache, v_scale)):
        if kv_cache_dtype.startswith("fp8"):
            rows = (rows.float() / scale).clamp(-448, 448).to(pages.dtype).view(torch.uint8)
            pages = pages.view(torch.uint8)
        pages[place] = rows[: len(slot_mapping)].where(valid, pages[place])
