//! The bounds within which the paper's figures are met.

use super::goals::goals;
use super::*;

fn profile() -> Profile {
    Profile::builtin("ddss-2006").expect("a shipped profile")
}

fn at(rows: &[Row], figure: &str, series: &str, x: &str) -> f64 {
    let row = rows.iter().find(|row| row.figure == figure && row.series == series && row.x.to_string() == x);
    row.unwrap_or_else(|| panic!("{figure}, {series}, {x}")).measured
}

#[test]
fn the_papers_latencies_are_met_within_their_bounds_and_what_misses_is_said() {
    let mut rows = latency::rows(&profile(), |_| {}).expect("experiments that end");
    rows.extend(latency::overheads(&profile()).expect("experiments that end"));
    let goals = goals(&rows);
    let missed: Vec<&str> = goals.iter().filter(|goal| !goal.met).map(|goal| goal.what.as_str()).collect();
    assert_eq!((goals.len(), missed), (4, vec!["synchronization and totals (Table 2)"]));
    // Ours are below the paper's where a lock was held.
    for model in ["write", "strict"] {
        for (figure, paper) in [("Ours, put", "Figure 4(a)"), ("Ours, get", "Figure 4(b)")] {
            let (ours, paper) = (at(&rows, figure, model, "1"), at(&rows, paper, "strict", "1"));
            assert!(ours < paper, "{figure}, {model}: {ours} against {paper}");
        }
    }
}

#[test]
fn clients_on_different_portions_are_flat_and_large_asynchronous_transfers_below_synchronous_ones() {
    let portions = contention::portions(&profile()).expect("experiments that end");
    assert!(goals(&portions).iter().all(|goal| goal.met), "{portions:?}");
    let rows = contention::asynchronous(&profile()).expect("experiments that end");
    for call in ["put", "get"] {
        let of = |series: String| at(&rows, "Figure 7", &series, "65536");
        assert!(of(format!("{call}, asynchronous")) < of(call.to_string()), "{call}");
    }
}

#[test]
fn services_take_what_the_paper_says_and_are_flat() {
    let rows = services::rows(&profile()).expect("experiments that end");
    let goals = goals(&rows);
    assert!(goals.len() == 2 && goals.iter().all(|goal| goal.met), "{goals:?}");
    let restart = |processes| at(&rows, "Figure 9(b)", "restart", processes);
    assert!(restart("11") > 2.0 * restart("1"), "a restart grows with the processes");
    let check = |threads| at(&rows, "Figure 8(b)", "two messages", threads);
    assert!(check("32") > 2.0 * check("0"), "messages wait for the processor");
}

#[test]
fn a_record_select_is_fitted_at_one_size_and_comes_out_at_the_others() {
    let (rows, fitted) = storm::rows(&profile()).expect("experiments that end");
    assert!(goals(&rows).iter().all(|goal| goal.met) && rows.len() == 9, "{rows:?}");
    assert!((1_000..50_000).contains(&fitted.value), "{fitted}: not what a record takes");
}

#[test]
fn delta_is_as_old_as_it_may_be_and_no_older_and_the_others_are_hardly_ever_old() {
    let rows = staleness::rows(&profile()).expect("experiments that end");
    let share = |model: &str, behind: u64| at(&rows, "Ours, staleness", model, &behind.to_string());
    for model in ["write", "version"] {
        assert!(share(model, 0) > 80.0, "{model}: {rows:?}");
    }
    // A get may begin within its bound and return after one put more.
    assert!(share("delta(2)", 2) > 5.0 && (4..=8).all(|behind| share("delta(2)", behind) == 0.0), "{rows:?}");
    assert!(share("delta(4)", 4) > 5.0 && (6..=8).all(|behind| share("delta(4)", behind) == 0.0), "{rows:?}");
    assert!(share("temporal(500us)", 0) < share("version", 0), "{rows:?}");
}

#[test]
fn what_was_fitted_is_two_constants() {
    let names: Vec<String> = Fitted::of(&profile()).into_iter().map(|fitted| fitted.name).collect();
    assert_eq!(names, ["cpu.poll_detect_ns", "adapter.compare_swap_ns"]);
}
