class SpeculativeAlgorithm:
    def is_none(self):
        raise NotImplementedError
