from dataclasses import dataclass


@dataclass
class KVWriteLoc:
    loc: object
    swa_loc: object = None


class ReqToTokenPool:
    req_to_token: object


class MHATokenToKVPool:
    def get_key_buffer(self, layer_id):
        raise NotImplementedError

    def get_value_buffer(self, layer_id):
        raise NotImplementedError

    def set_kv_buffer(self, layer, loc_info, cache_k, cache_v, k_scale=None, v_scale=None):
        raise NotImplementedError
