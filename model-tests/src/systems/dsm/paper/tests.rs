//! The bounds within which the paper's figures are met. The applications with the paper's inputs take minutes: `weft paper dsm` runs
//! them, and says which goals are met.

use super::apps::{Setup, line};
use super::*;

#[test]
fn what_table_1_adds_up_to_meets_table_2_and_selective_polling_takes_a_little_off_a_fault() {
    let profile = Profile::builtin("dsm-2005").expect("the program brings it");
    let mut rows = ping_pong::rows(&profile).expect("an experiment that ends");
    rows.extend(fault::rows(&profile).expect("an experiment that ends"));
    let goals = goals(&rows);
    assert!(goals.len() == 1 && goals.iter().all(|goal| goal.met), "{goals:?}");
    for row in rows.iter().filter(|row| row.unit == "ratio") {
        assert!((0.9..1.0).contains(&row.measured), "{row:?}");
    }
}

#[test]
fn faults_on_machines_of_today_take_no_longer_than_they_may() {
    let profile = Profile::builtin("present-day").expect("the program brings it");
    let goals = today::goals(&today::rows(&profile).expect("an experiment that ends"));
    assert!(goals.len() == 6 && goals.iter().all(|goal| goal.met), "{goals:?}");
}

#[test]
fn an_applications_time_is_what_its_causes_add_up_to_and_the_user_level_build_takes_longer() {
    let profile = Profile::builtin("dsm-2005").expect("the program brings it");
    let mut small = *line("Water").expect("it is a line");
    small.input = small.application.small();
    let setup = Setup::of(3, 2);
    let ran = apps::run(&profile, &small, setup).expect("it ends");
    for spent in &ran.spent {
        let parts = spent.compute + spent.handlers + spent.faults + spent.barriers + spent.locks;
        let took = spent.to - spent.from;
        // What is in none of them: giving locks back, and steps between two waits.
        assert!(parts <= took && parts as f64 > 0.8 * took as f64, "{parts} of {took}");
    }
    let user = apps::run(&apps::user_level(&profile, ping_pong::SIGNAL), &small, setup).expect("it ends");
    assert!(user.elapsed > ran.elapsed);
}
