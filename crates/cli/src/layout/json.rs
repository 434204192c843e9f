//! The facts of a layout or a transform, for other programs.

use super::subject::Subject;
use layout::{Transform, WarpAccess};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Facts and full table of a layout.
pub fn subject(subject: &Subject) -> Result<Value> {
    Ok(match subject {
        Subject::Memory { layout, bits } => json!({
            "layout": layout.to_string(),
            "shape": layout.shape().to_string(),
            "stride": layout.layout().stride().to_string(),
            "size": layout.size(),
            "cosize": layout.cosize(),
            "injective": layout.is_injective(),
            "element_bits": bits,
            "indices": layout.indices().collect::<Vec<u64>>(),
        }),
        Subject::Registers { tv, bits } => json!({
            "layout": tv.to_string(),
            "tile": tv.tile().to_string(),
            "threads": tv.threads(),
            "values": tv.values(),
            "partition": tv.is_partition(),
            "element_bits": bits,
            "coords": coords(tv)?,
        }),
        Subject::Tensor { layout } => json!({
            "layout": layout.to_string(),
            "shape": layout.shape().to_string(),
            "addresses": layout.indices().collect::<Vec<u64>>(),
        }),
    })
}

/// For each thread, the coordinates of its values in order.
fn coords(tv: &layout::TvLayout) -> Result<Vec<Vec<String>>> {
    let of_thread = |thread| -> Result<Vec<String>> {
        Ok(tv.thread_coords(thread)?.iter().map(ToString::to_string).collect())
    };
    (0..tv.threads()).map(of_thread).collect()
}

/// Facts of a transform, with the element index of every position and the cost of every warp access.
pub fn transform(transform: &Transform) -> Result<Value> {
    let accesses: Vec<Value> = transform.warp_accesses()?.iter().map(access).collect();
    Ok(json!({
        "transform": transform.to_string(),
        "element_bits": transform.element_bits(),
        "bijection": transform.is_bijection(),
        "vector_bits": transform.vector_bits(),
        "vector_bits_in_order": transform.vector_bits_in_order(),
        "conflict_degree": transform.conflict_degree()?,
        "indices": transform.to().indices().collect::<Vec<u64>>(),
        "warp_accesses": accesses,
    }))
}

fn access(access: &WarpAccess) -> Value {
    json!({
        "bytes": access.bytes,
        "passes": access.passes,
        "ideal": access.ideal,
        "addresses": access.addresses,
    })
}
