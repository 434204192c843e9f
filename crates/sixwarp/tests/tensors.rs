//! Tensors of a device: the same results as host tensors, and what is refused.

use half::bf16;
use sixwarp::{
    DType, Device, DeviceBuffers, Error, HostBuffers, Plan, PlanOptions, Problem, Segment, Slot,
    View, attention, plan, plan_with,
};

const QUERIES: usize = 2 * 3 * 64;
const KEYS: usize = 2 * 5 * 64;

/// Two heads, 3 queries, 5 keys; rows of the output are 80 elements apart.
fn problem() -> Problem {
    let q = View::bshd(DType::Bf16, [1, 2, 3, 64]);
    let keys = View::bshd(DType::Bf16, [1, 2, 5, 64]);
    let out = View { strides: [480, 80, 160, 1], ..q };
    let segment = Segment::new(keys, keys);
    Problem::builder(q).out(out).segment(segment).return_lse().build().unwrap()
}

fn values(count: usize, seed: u64) -> Vec<bf16> {
    let mut rng = cases::Rng::new(seed);
    let mut values = vec![0.0; count];
    rng.fill_normal(&mut values);
    values.into_iter().map(bf16::from_f32).collect()
}

#[test]
fn every_device_computes_on_its_own_tensors() {
    let problem = problem();
    let [q, k, v] = [(QUERIES, 1), (KEYS, 2), (KEYS, 3)].map(|(n, seed)| values(n, seed));
    for name in ["cpu", "oracle", "sim-sm90"] {
        let device: Device = name.parse().unwrap();
        let (mut want, mut want_lse) = (vec![bf16::NAN; 480], vec![0.0f32; 6]);
        let mut buffers = HostBuffers::new()
            .input(Slot::Q, &q)
            .input(Slot::K, &k)
            .input(Slot::V, &v)
            .output(Slot::Out, &mut want)
            .output(Slot::Lse, &mut want_lse);
        attention(&problem, &mut buffers, &device).unwrap();
        let [dq, dk, dv] = [&q, &k, &v].map(|values| device.upload(values).unwrap());
        // Between rows lies what nobody may touch, in the very bits that memory begins with.
        let untouched = bf16::from_bits(0xffff);
        let mut out = device.upload(&[untouched; 480]).unwrap();
        let mut lse = device.alloc::<f32>(6).unwrap();
        let buffers = DeviceBuffers::new()
            .input(Slot::Q, &dq)
            .input(Slot::K, &dk)
            .input(Slot::V, &dv)
            .output(Slot::Out, &mut out)
            .output(Slot::Lse, &mut lse);
        let executable = plan(&problem, &device).unwrap().prepare().unwrap();
        let (stream, mut workspace) =
            (device.new_stream().unwrap(), executable.alloc_workspace().unwrap());
        executable.launch(&stream, buffers, &mut workspace).unwrap().wait().unwrap();
        for (at, (got, want)) in out.download().unwrap().iter().zip(&want).enumerate() {
            let gap = at % 80 >= 64;
            let expected = if gap { untouched } else { *want };
            assert_eq!(got.to_bits(), expected.to_bits(), "{name} element {at}");
        }
        assert_eq!(lse.download().unwrap(), want_lse, "{name}");
    }
}

#[test]
fn mistakes_are_named() {
    let problem = problem();
    for device in [Device::cpu(), "sim-sm90".parse().unwrap()] {
        let keys = device.upload(&values(KEYS, 1)).unwrap();
        let wrong = device.upload(&[0.0f32; QUERIES]).unwrap();
        let mut integers = device.alloc::<i32>(480).unwrap();
        let mut out = device.alloc::<bf16>(480).unwrap();
        let executable = plan(&problem, &device).unwrap().prepare().unwrap();
        let (here, elsewhere) = (device.default_stream(), Device::oracle().default_stream());
        let inputs = |q| DeviceBuffers::new().input(Slot::Q, q).input(Slot::K, &keys);
        let launched = |stream, buffers| {
            let mut workspace = executable.alloc_workspace().unwrap();
            executable.launch(stream, buffers, &mut workspace).map(drop)
        };
        let refused = |buffers| launched(&here, buffers).unwrap_err().to_string();
        let error = refused(inputs(&wrong).input(Slot::V, &keys).output(Slot::Out, &mut out));
        assert!(error.starts_with("q: must hold bf16"), "{error}");
        let error = refused(inputs(&wrong).output(Slot::Out, &mut integers));
        assert_eq!(error, "out: must hold floats, but it is i32");
        let error = launched(&elsewhere, inputs(&wrong)).unwrap_err().to_string();
        assert_eq!(error, format!("stream: must be of {device}, but it is oracle"));
    }
    let mut tensor = Device::cpu().alloc::<u8>(2).unwrap();
    let error = tensor.write(&[1, 2, 3]).unwrap_err().to_string();
    assert_eq!(error, "device tensor: holds 2 elements, but it is 3");
}

#[test]
fn addresses_are_for_gpus() {
    let device = Device::cpu();
    // SAFETY: nothing lies there, but the CPU refuses addresses before it looks.
    let refused = unsafe { sixwarp::DeviceRef::from_raw::<f32>(&device, 64, 1) };
    assert!(matches!(refused, Err(Error::Invalid(_))));
    let executable = plan(&problem(), &device).unwrap().prepare().unwrap();
    let stream = device.default_stream();
    // SAFETY: as above.
    let refused = unsafe { executable.launch_at(&stream, |_| 64, 0) }.unwrap_err();
    assert_eq!(refused.to_string(), "device: is a GPU where addresses are given, but it is cpu");
    // SAFETY: as above.
    let refused = unsafe { sixwarp::Stream::from_raw(&device, 1) };
    assert!(matches!(refused, Err(Error::Invalid(_))));
    let refused = stream.capture(|| Ok(())).map(drop).unwrap_err();
    assert_eq!(refused.to_string(), "device: is a GPU where graphs are recorded, but it is cpu");
}

#[test]
fn a_plan_for_any_address_copies_rows_first() {
    let (problem, device) = (problem(), "sim-sm90".parse::<Device>().unwrap());
    let options = device.plan_options().map(|usual| PlanOptions { any_address: true, ..usual });
    let anywhere = plan_with(&problem, &device, options).unwrap();
    let usual = plan(&problem, &device).unwrap();
    let alignments =
        |plan: &Plan| [Slot::Q, Slot::V, Slot::Out, Slot::Lse].map(|s| plan.alignment(s));
    assert_eq!(alignments(&usual), [Some(16), Some(16), Some(16), Some(4)]);
    assert_eq!(alignments(&anywhere), [Some(2), Some(2), Some(16), Some(4)]);
    assert_eq!(anywhere.alignment(Slot::Sinks), None);
    let copies: u64 = 2 * (QUERIES as u64).next_multiple_of(128) + 4 * KEYS as u64;
    assert!(anywhere.workspace_bytes() >= usual.workspace_bytes() + copies);
    let [q, k, v] = [(QUERIES, 1), (KEYS, 2), (KEYS, 3)].map(|(n, seed)| values(n, seed));
    let results = [usual, anywhere].map(|plan| {
        let (mut out, mut lse) = (vec![bf16::ZERO; 480], vec![0.0f32; 6]);
        let mut buffers = HostBuffers::new()
            .input(Slot::Q, &q)
            .input(Slot::K, &k)
            .input(Slot::V, &v)
            .output(Slot::Out, &mut out)
            .output(Slot::Lse, &mut lse);
        plan.run(&mut buffers).unwrap();
        (out, lse)
    });
    assert_eq!(results[0], results[1]);
}
