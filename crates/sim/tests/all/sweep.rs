//! Every fault at every request of a fixed story.

use headwater_sim::fault::FaultKind;
use headwater_sim::rows::KeyShape;
use headwater_sim::sweep::{SWEPT, sweep};

#[test]
fn a_fault_at_any_request_of_the_story_breaks_no_promise() {
    for shape in [KeyShape::Int, KeyShape::None] {
        let sweep = sweep(shape);
        println!("{shape:?} key: {sweep}");
        assert!(sweep.violations.is_empty(), "{sweep}");
        assert!(sweep.requests > 40, "the story is too short: {} requests", sweep.requests);
        assert_eq!(sweep.runs, 1 + sweep.requests * SWEPT.len() as u64);
        // These meet every request, whatever it asks for.
        for kind in [FaultKind::ErrorBefore, FaultKind::CrashBefore, FaultKind::PausedBefore] {
            assert_eq!(sweep.faults.get(kind), sweep.requests, "{kind}");
        }
        for kind in [FaultKind::AnswerLost, FaultKind::CrashAfter] {
            assert!(sweep.faults.get(kind) * 10 > sweep.requests * 9, "{kind}");
        }
    }
}
