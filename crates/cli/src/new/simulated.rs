//! The kernel computes what it should, in every order of events that the simulator knows.

#[test]
fn every_element_is_right() {
    let program = my_kernel::program(300, 2.0);
    let bytes = |x: &[f32]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let x: Vec<f32> = (0..300).map(|i| i as f32).collect();
    let wanted: Vec<f32> = x.iter().map(|x| 2.0 * x + 1.0).collect();
    for mode in ["pedantic", "latest", "random", "adversarial"] {
        let options = sim::Options::mode(mode, 0).expect("a mode");
        let memory = [bytes(&x), bytes(&[1.0; 300])];
        let report =
            sim::run(&program, &memory, &options).unwrap_or_else(|e| panic!("{mode}: {e}"));
        assert_eq!(report.buffers[1], bytes(&wanted), "{mode}");
    }
}
