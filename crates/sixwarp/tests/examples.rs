//! The examples run, with a GPU and without.

#[allow(dead_code)] // Its `main` reads the command line, which is the test's.
#[path = "../examples/device_tensors.rs"]
mod device_tensors;
#[path = "../examples/dsv4_decode.rs"]
mod dsv4_decode;
#[path = "../examples/graph_decode.rs"]
mod graph_decode;
#[allow(dead_code)] // As above.
#[path = "../examples/processors.rs"]
mod processors;

#[test]
fn tensors_stay_on_any_device() {
    for name in [None, Some("cpu"), Some("sim-sm90")] {
        let device = device_tensors::open(name).unwrap();
        device_tensors::decode(&device).unwrap();
    }
    let unknown = device_tensors::open(Some("abacus")).unwrap_err();
    assert!(unknown.to_string().contains("abacus"), "{unknown}");
}

#[test]
fn a_layer_of_deepseek_v4_decodes() {
    dsv4_decode::main().unwrap();
}

#[test]
fn a_graph_decodes_or_a_gpu_is_asked_for() {
    let ended = graph_decode::main().map_err(|error| error.to_string());
    match sixwarp::Device::cuda(0) {
        Ok(_) => ended.unwrap(),
        Err(why) => assert_eq!(ended, Err(format!("CUDA graphs need a GPU: {why}"))),
    }
}

#[test]
fn processors_say_when_they_end() {
    let ends = processors::simulate(64, None).unwrap();
    assert!(ends.len() == 8 && ends.iter().all(|end| (1.0..1e4).contains(end)), "{ends:?}");
}

#[test]
fn every_example_is_run_here() {
    let tests = include_str!("examples.rs");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(tests.contains(&format!("examples/{name}")), "{name} has no test");
    }
}
