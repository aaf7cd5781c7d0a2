//! The bounds within which the paper's figures are met. The applications with the paper's inputs take minutes: `weft paper dsm` runs
//! them, and says which goals are met.

use super::apps::{Setup, line};
use super::*;

#[test]
fn what_table_1_adds_up_to_meets_table_2_and_polling_takes_off_a_fault_what_the_paper_says() {
    let profile = Profile::builtin("dsm-2005").expect("the program brings it");
    let mut rows = ping_pong::rows(&profile).expect("an experiment that ends");
    rows.extend(fault::rows(&profile).expect("an experiment that ends"));
    let goals = goals(&rows);
    let (read, others): (Vec<_>, Vec<_>) = goals.iter().partition(|goal| goal.what.contains("by RDMA read"));
    assert!(others.len() == 2 && others.iter().all(|goal| goal.met), "{goals:?} of {rows:?}");
    // At 128 bytes an RDMA read is faster here than what it takes the place of, and not 2 to 3 % slower: docs/dsm.md.
    let [read] = read[..] else { panic!("one goal: {goals:?}") };
    assert!(!read.met && read.worst.contains("128 bytes"), "{goals:?} of {rows:?}");
}

#[test]
fn a_claim_of_all_bodies_takes_a_third_of_the_time_that_they_take_one_by_one() {
    let profile = Profile::builtin("dsm-2005").expect("the program brings it");
    let rows = claims::rows(&profile).expect("an experiment that ends");
    assert!(claims::goals(&rows).count() == 1 && claims::goals(&rows).all(|goal| goal.met), "{rows:?}");
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
