use super::{checked, report};
use sixwarp_report::{Colour, Report};

#[test]
fn a_hang_is_told_with_the_users_lines() {
    let text = Report { checked: vec![checked("ragged_causal_tile_count")], ..Report::default() };
    let text = text.to_text(Colour::Never);
    let expected = "\
tests/fail/ragged_causal_tile_count.ptx, kernel `ragged_causal_tile_count`: 1 finding under 1 schedule
deadlock: nobody arrives at phase 1 of mbarrier `full_bars`: CTA (3,0,0) warp 0, which arrived in phase 0, has exited
  1 warp waits for phase 1 (parity 1) of mbarrier `full_bars`: CTA (3,0,0) warp 1
  --> varlen.py:43, kernel `ragged_causal_tile_count`, cycle 604
    43 |         full.wait(t)
       | PTX line 84: mbarrier.try_wait.parity.shared.b64 p, [full], parity;
  mbarrier `full_bars`: phase 1 has 0 of 1 arrivals; initialised at varlen.py:10
       | CTA (3,0,0) warp 0 arrived 1 time in 1 phase, last in phase 0 (cycle 44), at varlen.py:35, and exited since
  CTA (3,0,0) warp 0, now exited, last did this (cycle 65), at varlen.py:35
       | cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [kv], 256, [full];
  CTA (3,0,0) warp 1, now in a wait, last did this (cycle 581), at varlen.py:44
       | @lane0 mbarrier.arrive.shared.b64 _, [empty];
   = help: the waiting warps count more phases than the exited ones made: compare how both compute the number of \
their tiles, from which length and with which mask
   = replay: sixwarp check tests/fail/ragged_causal_tile_count.ptx --replay eager
1 checked: 0 clean, 1 with findings
";
    assert_eq!(text, expected);
}

#[test]
fn what_could_not_be_checked_is_no_finding() {
    let text = report().to_text(Colour::Never);
    assert!(text.contains("unsupported: this form of the instruction is not known here"), "{text}");
    assert!(
        text.ends_with("4 checked: 0 clean, 3 with findings, 1 not checked to the end\n"),
        "{text}"
    );
    assert!(
        !text.contains('\x1b') && report().to_text(Colour::Always).contains("\x1b[1;31mhazard")
    );
}
