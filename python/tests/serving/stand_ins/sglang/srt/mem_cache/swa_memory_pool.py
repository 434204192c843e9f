class SWAKVPool:
    swa_layer_nums: int
    layers_mapping: dict

    def get_key_buffer(self, layer_id):
        raise NotImplementedError

    def get_value_buffer(self, layer_id):
        raise NotImplementedError

    def set_kv_buffer(self, layer, loc_info, cache_k, cache_v):
        raise NotImplementedError

    def translate_loc_from_full_to_swa(self, kv_indices):
        raise NotImplementedError
