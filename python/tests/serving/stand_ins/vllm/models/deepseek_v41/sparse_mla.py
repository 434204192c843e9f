from dataclasses import dataclass


@dataclass
class DeepseekV4FlashMLAMetadata:
    block_table: object
    block_size: int
