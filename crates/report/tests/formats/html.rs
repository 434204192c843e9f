//! Pages, by their structure; how they look is for eyes.

use super::{checked, ptx};

fn page(name: &str) -> String {
    let checked = checked(name);
    checked.to_html(&checked.findings[0], Some(&ptx(name)))
}

/// Elements that have no end.
const VOID: [&str; 2] = ["meta", "br"];

/// Fails unless every element ends where it should.
fn check_nesting(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in html.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap();
        let name = tag.split_whitespace().next().unwrap_or_default();
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
        } else if !tag.ends_with('/') && !name.starts_with('!') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// Fails unless these stand in the page in this order.
fn check_order(html: &str, parts: &[&str]) {
    let mut rest = html;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("`{part}` in {rest}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn a_race_has_its_accesses_the_missing_order_the_remedy_and_a_timeline() {
    let html = page("shared_race");
    check_nesting(&html);
    check_order(
        &html,
        &[
            "hazard[race]",
            "id=\"accesses\"",
            "<span class=\"here\">   24      ld.shared.b32 o, [r1];</span>",
            "nothing puts these in order",
            "<span class=\"here\">   21      st.shared.b32 [r1], i;</span>",
            "id=\"remedy\"",
            "is done before the memory is reused",
            "id=\"timeline\"",
            "CTA (0,0,0) warp 0",
            "class=\"mark\"",
            "The last instructions of CTA (0,0,0) warp 1",
            "sixwarp check tests/fail/shared_race.ptx --replay eager",
        ],
    );
}

#[test]
fn a_hang_has_its_waiters_its_barriers_and_the_last_deeds() {
    let html = page("ragged_causal_tile_count");
    check_nesting(&html);
    check_order(
        &html,
        &[
            "id=\"waiting\"",
            "CTA (3,0,0) warp 1 waits for phase 1 (parity 1) of mbarrier `full_bars`",
            "<span class=\"here\">   43          full.wait(t)</span>",
            "id=\"barriers\"",
            "phase 1 has <b>0 of 1</b> arrivals",
            "<tr class=\"lacks\"><td>CTA (3,0,0) warp 0</td>",
            "id=\"last-deeds\"",
            "id=\"timeline\"",
            "CTA (3,0,0) warp 1",
            "CTA (3,0,0) copy engine",
        ],
    );
}

#[test]
fn a_page_needs_nothing_else() {
    for name in ["shared_race", "ragged_causal_tile_count"] {
        let html = page(name);
        for outside in ["<script", "src=", "href=", "@import", "url("] {
            assert!(!html.contains(outside), "{name}: {outside}");
        }
    }
}

#[test]
fn text_from_elsewhere_cannot_become_markup() {
    let mut checked = checked("shared_race");
    let evil = "<script>alert(\"x\")</script>";
    checked.path = evil.into();
    checked.findings[0].message = evil.into();
    checked.findings[0].rule = evil.into();
    checked.findings[0].all_places_mut().for_each(|place| {
        place.instruction = evil.into();
        place.role = evil.into();
    });
    for row in &mut checked.findings[0].timeline.as_mut().unwrap().rows {
        row.name = evil.into();
        row.steps.iter_mut().for_each(|step| step.instruction = evil.into());
        row.spans.iter_mut().for_each(|span| span.name = evil.into());
    }
    let html = checked.to_html(&checked.findings[0], Some(evil));
    assert!(!html.contains("<script"), "{html}");
    check_nesting(&html);
}
