//! The bounds within which the paper's figures are met.

use super::*;

#[test]
fn what_table_1_adds_up_to_meets_table_2_and_selective_polling_takes_a_little_off_a_fault() {
    let results = results(&mut |_, _| {}).expect("experiments that end");
    assert!(results.goals.len() == 1 && results.goals.iter().all(|goal| goal.met), "{:?}", results.goals);
    let names: Vec<&str> = results.fitted.iter().map(|fitted| fitted.name.as_str()).collect();
    assert_eq!(names, ["task queue", "process"]);
    for row in results.rows.iter().filter(|row| row.unit == "ratio") {
        assert!((0.9..1.0).contains(&row.measured), "{row:?}");
    }
}
