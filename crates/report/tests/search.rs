//! The first schedule that fails is the same however many run at a time.

use filetest::{FileTest, Prepared};
use sixwarp_report::{Launch, Mode, Schedule, schedules, search};

/// Warp 0 traps if it comes to its look before warp 1, which has less to do, has stored: few schedules let it.
const RARE: &str = "\
// run: --block 64 --arg flag:u32[1]=zero+rw
.version 8.0
.target sm_90a
.address_size 64
.visible .entry rare(.param .u64 p_flag)
{
    .reg .pred p, first;
    .reg .b32 i, n, seen;
    .reg .b64 flag;
    ld.param.u64 flag, [p_flag];
    mov.u32 i, %tid.x;
    setp.lt.u32 first, i, 32;
    selp.u32 n, 60, 30, first;
LOOP:
    sub.u32 n, n, 1;
    setp.ne.u32 p, n, 0;
    @p bra LOOP;
    @!first st.relaxed.gpu.global.u32 [flag], 1;
    @!first ret;
    ld.relaxed.gpu.global.u32 seen, [flag];
    setp.eq.u32 p, seen, 0;
    @p trap;
    ret;
}
";

fn prepared() -> Prepared {
    let test = FileTest::parse("rare", RARE).unwrap();
    test.prepare(&test.runs[0]).unwrap()
}

fn failure(prepared: &Prepared, all: &[Schedule], threads: usize) -> (usize, Schedule, String) {
    let launch = Launch { program: &prepared.program, contents: &prepared.contents };
    let searched = search(launch, all, &sim::Options::default(), threads, &|_| {});
    let (schedule, error) = searched.failure().expect("some schedule traps");
    (searched.outcomes.len(), schedule, error.to_string())
}

#[test]
fn the_first_failing_schedule_does_not_depend_on_threads() {
    let prepared = prepared();
    let all = schedules(&Mode::ALL, 0..64);
    let (ran, schedule, report) = failure(&prepared, &all, 1);
    assert_eq!(all[ran - 1], schedule);
    assert!(ran > 4 && ran < all.len(), "a rare schedule, found: {ran}, {schedule}");
    for threads in [2, 3, 8] {
        assert_eq!(failure(&prepared, &all, threads), (ran, schedule, report.clone()));
    }
    // Alone it fails in the same words.
    assert_eq!(failure(&prepared, &[schedule], 1), (1, schedule, report));
}

#[test]
fn a_clean_launch_runs_under_all_schedules() {
    let source = RARE.replace("@p trap;", "");
    let test = FileTest::parse("rare", &source).unwrap();
    let prepared = test.prepare(&test.runs[0]).unwrap();
    let launch = Launch { program: &prepared.program, contents: &prepared.contents };
    let ended = std::sync::atomic::AtomicUsize::new(0);
    let count = |n: usize| {
        ended.fetch_max(n, std::sync::atomic::Ordering::Relaxed);
    };
    let all = schedules(&Mode::ALL, 0..4);
    let searched = search(launch, &all, &sim::Options::default(), 2, &count);
    assert!(searched.failure().is_none());
    let ran: Vec<Schedule> = searched.outcomes.iter().map(|(schedule, _)| *schedule).collect();
    assert_eq!((ran, ended.into_inner()), (all.clone(), all.len()));
}
