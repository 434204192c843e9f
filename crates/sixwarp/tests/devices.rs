//! Devices by name, the CPU and the oracle on the table, and what is refused.

use cases::{CaseData, EngineError, Outputs, check, table};
use half::bf16;
use sixwarp::{
    Arch, DType, Device, Error, HostBuffers, Problem, Segment, SegmentSlot, Slot, View, attention,
    ensure_memory, plan, sim,
};

fn engine(device: Device) -> impl FnMut(&Problem, &CaseData) -> Result<Outputs, EngineError> {
    move |problem, data| {
        let (result, out, lse) =
            data.with_outputs(|mut buffers| attention(problem, &mut buffers, &device));
        match result {
            Ok(()) => Ok(Outputs { out, lse }),
            Err(Error::Unsupported(unsupported)) => Err(unsupported.into()),
            Err(error) => Err(EngineError::Failed(error.to_string())),
        }
    }
}

#[test]
fn cpu_and_oracle_pass_a_sample_of_the_table() {
    for device in [Device::cpu(), Device::oracle()] {
        let mut engine = engine(device.clone());
        for case in table().into_iter().step_by(9) {
            let outcome = check(&case, &mut engine);
            assert!(outcome.passed(), "{device} {}: {outcome}", case.name);
        }
    }
}

#[test]
fn simulated_gpus_pass_small_cases_and_decline_what_they_cannot() {
    for name in ["sim-sm90", "sim-sm100"] {
        let mut engine = engine(name.parse().unwrap());
        for (case, runs) in [
            ("batch-2", true),
            ("varlen-empty-and-one", true),
            ("paged-16", true),
            ("indices-none-in-use", true),
            ("strides-odd-gap1", true),
            ("f64-d64", false),
        ] {
            let case = table().into_iter().find(|c| c.name == case).unwrap();
            let outcome = check(&case, &mut engine);
            assert!(!outcome.failed(), "{name} {}: {outcome}", case.name);
            assert_eq!(outcome.passed(), runs, "{name} {}: {outcome}", case.name);
        }
    }
}

#[test]
fn an_empty_batch_is_answered_everywhere() {
    for (name, dim) in ["cpu", "oracle", "sim-sm90", "sim-sm100"]
        .into_iter()
        .flat_map(|name| [64, 512].map(|dim| (name, dim)))
    {
        let none = View::bshd(DType::Bf16, [0, 4, 3, dim]);
        let pages = View::bshd(DType::Bf16, [2, 4, 16, dim]);
        for segment in [Segment::new(none, none), Segment::new(pages, pages).paged(2).used()] {
            let builder = Problem::builder(none).segment(segment).sinks().return_lse();
            let problem = builder.build().unwrap();
            let pages = vec![bf16::ZERO; problem.slot_bytes(Slot::K) as usize / 2];
            let (q, mut out): (Vec<bf16>, Vec<bf16>) = (vec![], vec![]);
            let (sinks, mut lse) = (vec![0.0f32; 4], Vec::<f32>::new());
            let lengths: Vec<i32> = vec![];
            let part = |part| Slot::Segment(0, part);
            let mut buffers = HostBuffers::new()
                .input(Slot::Q, &q)
                .input(Slot::K, &pages)
                .input(Slot::V, &pages)
                .input(Slot::Sinks, &sinks)
                .input(part(SegmentSlot::Used), &lengths)
                .input(part(SegmentSlot::PageTable), &lengths)
                .output(Slot::Out, &mut out)
                .output(Slot::Lse, &mut lse);
            let device: Device = name.parse().unwrap();
            attention(&problem, &mut buffers, &device).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}

#[test]
fn devices_have_names() {
    for name in ["cpu", "oracle", "sim-sm90", "sim-sm100"] {
        assert_eq!(name.parse::<Device>().unwrap().to_string(), name);
    }
    for name in ["", "gpu", "cuda:", "cuda:x"] {
        let error = name.parse::<Device>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("no device is called `{name}`: ")), "{error}");
    }
}

#[test]
fn too_large_is_refused_with_the_number_of_bytes() {
    let huge = View::bhsd(DType::Bf16, [1 << 10, 1 << 10, 1 << 20, 512]);
    let keys = View::bhsd(DType::Bf16, [1 << 10, 1 << 10, 1, 512]);
    let problem = Problem::builder(huge).segment(Segment::new(keys, keys)).build().unwrap();
    match plan(&problem, &Device::oracle()).unwrap_err() {
        Error::TooLarge { needed, available, .. } => {
            assert_eq!(needed, ((1u64 << 40) * 513 + 1024) * 8);
            assert!(available < needed);
        }
        other => panic!("{other}"),
    }
    assert!(ensure_memory("nothing", 0).is_ok());
}

#[test]
fn a_simulator_is_not_asked_for_more_than_there_is() {
    let queries = View::bhsd(DType::Bf16, [1 << 10, 1 << 7, 1 << 13, 512]);
    let keys = View::bhsd(DType::Bf16, [1 << 10, 1 << 7, 1, 512]);
    let problem = Problem::builder(queries).segment(Segment::new(keys, keys)).build().unwrap();
    let error = plan(&problem, &"sim-sm90".parse().unwrap()).unwrap_err();
    let Error::TooLarge { needed, available, .. } = error else { panic!("{error}") };
    let tensors = 2 * (2 * (1u64 << 30) + 2 * (1 << 17)) * 512;
    assert_eq!(needed, 3 * tensors);
    assert!(available < needed);
    let error = Device::cpu().alloc::<f32>(1 << 60).unwrap_err().to_string();
    assert!(
        error.starts_with("a tensor of 1152921504606846976 f32 needs 4611686018427387904 bytes"),
        "{error}"
    );
}

#[test]
fn missing_and_short_memory_is_named() {
    let view = View::bhsd(DType::F32, [1, 1, 1, 4]);
    let problem = Problem::builder(view).segment(Segment::new(view, view)).build().unwrap();
    let row = [0.0f32; 4];
    for device in [Device::cpu(), Device::oracle()] {
        let inputs = HostBuffers::new().input(Slot::Q, &row[..]).input(Slot::K, &row[..]);
        let error = attention(&problem, &mut { inputs }, &device).unwrap_err().to_string();
        assert_eq!(error, "v: needs memory (memory rule 1), but it is missing");
        let mut short = [0.0f32; 3];
        let mut buffers = HostBuffers::new()
            .input(Slot::Q, &row[..])
            .input(Slot::K, &row[..])
            .input(Slot::V, &row[..])
            .output(Slot::Out, &mut short[..]);
        let error = attention(&problem, &mut buffers, &device).unwrap_err().to_string();
        assert!(error.starts_with("out: "), "{error}");
    }
}

#[test]
fn impossible_tables_are_named() {
    let (q, pages) =
        (View::bhsd(DType::Bf16, [1, 1, 1, 64]), View::bhsd(DType::Bf16, [4, 1, 2, 64]));
    let rows = vec![bf16::ONE; 4 * 2 * 64];
    let problem = Problem::builder(q).segment(Segment::shared(pages, 64).paged(2)).build().unwrap();
    for device in ["cpu", "oracle", "sim-sm90"] {
        let mut out = [bf16::NAN; 64];
        let mut buffers = HostBuffers::new()
            .input(Slot::Q, &rows[..64])
            .input(Slot::K, &rows[..])
            .input(Slot::Segment(0, SegmentSlot::PageTable), &[3, -1][..])
            .output(Slot::Out, &mut out[..]);
        let error = attention(&problem, &mut buffers, &device.parse().unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "page_table: entry [0,1] must lie in 0..4 (memory rule 4), but it is -1"
        );
    }
}

#[test]
fn what_the_simulator_found_can_be_matched_on() {
    let options = sim::Options {
        limits: sim::Limits { instructions: 100, ..sim::Limits::default() },
        ..sim::Options::default()
    };
    let case = table().into_iter().find(|case| case.name == "batch-2").unwrap();
    let data = CaseData::new(&case).unwrap();
    for arch in Arch::ALL {
        let device = Device::simulated_with(arch, options.clone());
        let (result, ..) =
            data.with_outputs(|mut buffers| attention(&data.problem, &mut buffers, &device));
        let error = result.unwrap_err();
        let Error::Simulated(sim::Error::Stopped(stopped)) = &error else { panic!("{error}") };
        assert!(stopped.reason.contains("100 warp instructions"), "{stopped}");
        assert!(error.to_string().starts_with("stopped: "), "{error}");
    }
}

#[test]
fn a_gpu_has_the_architecture_whose_code_it_runs() {
    let gpu = |compute_capability| cuda::DeviceInfo {
        ordinal: 0,
        name: "a GPU".into(),
        compute_capability,
        sm_count: 1,
        memory_bytes: 1,
        shared_bytes: 1,
        l2_bytes: 1,
        driver: (13, 0),
    };
    let capabilities = (0..=13).flat_map(|major| (0..=9).map(move |minor| (major, minor)));
    for capability in capabilities {
        let runs = |arch: &Arch| gpu(capability).runs(&arch.to_string());
        let arch = Arch::of_capability(capability);
        assert_eq!(arch.is_some(), capability.0 >= 8, "{capability:?}");
        assert!(arch.iter().all(runs), "{capability:?}");
        // Kernels for exactly this GPU come before those that every later one runs.
        let own = Arch::ALL.into_iter().find(|arch| !arch.is_mma_sync() && runs(arch));
        assert!(own.is_none() || own == arch, "{capability:?}");
    }
}
