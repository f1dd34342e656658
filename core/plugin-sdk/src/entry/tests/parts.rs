//! What the host hears of the parts of a quantizer's work.

use super::*;

/// Two candidates of two samples, the first of which are calibrated with.
pub(super) struct Parts;

impl Quantizer for Parts {
    fn quantize(&mut self, _: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics> {
        // One that ends later than the next has begun takes nothing else with it.
        let earlier = cx.part("");
        let candidate = cx.part("candidate 1 of 2");
        drop(earlier);
        {
            let _part = cx.part("calibration");
            cx.count("sample", 0, 2)?;
            cx.count("sample", 2, 2)?;
        }
        cx.count("sample", 0, 2)?;
        candidate.now("candidate 2 of 2");
        assert!(!cx.is_stopped());
        cx.count("sample", 2, 2)?;
        drop(candidate);
        cx.count("sample", 0, 3)?;
        Ok(())
    }
}

#[test]
fn progress_names_the_parts_that_it_belongs_to() {
    give_graph(0);
    give_file(b"");
    assert_eq!(drive("quantizer/parts", "{}", run), (abi::OK, String::new()));
    let told = [
        "candidate 1 of 2, calibration, sample: 0/2", "candidate 1 of 2, calibration, sample: 2/2",
        "candidate 1 of 2, sample: 0/2", "candidate 2 of 2, sample: 2/2", "sample: 0/3",
    ];
    assert_eq!(host(|h| std::mem::take(&mut h.told)), told);
    give_graph(2);
    assert_eq!(drive("pass", &passes(&["remove-double-neg"]), run).0, abi::OK);
    assert_eq!(host(|h| h.told.clone()), ["remove-double-neg: 0/0"]);
}
