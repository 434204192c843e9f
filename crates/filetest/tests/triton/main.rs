//! Kernels that Triton compiled for sm_90 and sm_100, run on the simulator against f64.
//!
//! The kernels are in `tests/triton`; the compiler is PyPI's Triton, so nobody here wrote the PTX.

mod attention;
mod facts;
mod launch;
mod matmul;

use facts::Facts;
use filetest::SimEngine;

fn kernels(prefix: &str) -> Vec<Facts> {
    let found: Vec<Facts> =
        facts::all().into_iter().filter(|facts| facts.name.starts_with(prefix)).collect();
    assert!(!found.is_empty(), "no kernel is called {prefix}…");
    found
}

/// Every mode in which asynchronous work may complete.
fn engines() -> Vec<SimEngine> {
    ["eager", "latest", "adversarial", "random"].map(|mode| SimEngine::mode(mode, 1)).into()
}

#[test]
fn matrix_products_through_pointers() {
    kernels("matmul_pointers").iter().for_each(|k| matmul::check(k, &engines()));
}

#[test]
fn matrix_products_through_host_tensor_maps() {
    kernels("matmul_host").iter().for_each(|k| matmul::check(k, &engines()));
}

#[test]
fn matrix_products_through_tensor_maps_made_on_the_device() {
    kernels("matmul_device").iter().for_each(|k| matmul::check(k, &engines()));
}

#[test]
fn persistent_matrix_products() {
    kernels("matmul_persistent").iter().for_each(|k| matmul::check(k, &engines()));
}

#[test]
fn warp_specialised_matrix_products() {
    kernels("matmul_specialised").iter().for_each(|k| matmul::check(k, &engines()));
}

#[test]
fn attention_forward() {
    kernels("attention").iter().for_each(|k| attention::check(k, &engines()));
}
