//! The smoke checks where there is a GPU; without one, that this is said and nothing panics. The
//! kernels themselves are assembled for real either way.

#[path = "../examples/smoke/checks/mod.rs"]
mod checks;

use ptx::toolchain::assemble;
use sixwarp_cuda::{Device, Error, driver_version};

#[test]
fn every_check_passes_on_a_gpu_and_its_absence_is_an_error() {
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => {
            assert!(error.is_no_gpu(), "{error}");
            assert_eq!(Device::count(), Ok(0));
            if error == Error::NoDriver {
                assert_eq!(driver_version(), Err(Error::NoDriver));
                assert!(error.to_string().contains("libcuda.so.1"));
            }
            return;
        }
    };
    for (name, check) in checks::ALL {
        check(&device).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn the_kernels_assemble_without_spills_or_warnings() {
    use checks::kernels::{ACCELERATED, BOXES, GATHER, LAUNCH, TMA, VECTOR};
    let all = [
        (VECTOR, "sm_80"),
        (TMA, "sm_90"),
        (BOXES, "sm_90"),
        (GATHER, "sm_100a"),
        (LAUNCH, "sm_90"),
        (ACCELERATED, "sm_90a"),
    ];
    for (ptx, arch) in all {
        let printed = ptx::parse(ptx).unwrap().to_string();
        let assembled = assemble(&printed, arch).unwrap();
        assert!(assembled.warnings.is_empty(), "{:?}", assembled.warnings);
        assert!(assembled.report.iter().all(|kernel| kernel.spill_stores == 0));
    }
}

#[test]
fn the_programs_keep_their_rules() {
    assert_eq!(checks::vector::scale_add_program().check(), Ok(vec![]));
    assert_eq!(checks::launches::captured_program().check(), Ok(vec![]));
    let program = checks::tma::round_trip_program(program::Swizzle::B128, 64, (0, 0));
    assert_eq!(program.check(), Ok(vec![]));
    for program in (1..=4).map(checks::boxes::small_boxes_program) {
        assert_eq!(program.check(), Ok(vec![]));
    }
    assert_eq!(checks::boxes::gather_program(0).check(), Ok(vec![]));
}
