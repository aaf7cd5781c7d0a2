//! The applications by themselves; model-tests/tests/all/dsm runs them on the simulated fabric.

use super::*;
use crate::fields::Rule;
use crate::systems::dsm::workload::DsmWork;

#[test]
fn a_sequential_run_is_the_same_every_time_and_does_some_work() {
    for application in Application::ALL {
        let answer = application.sequential(application.small());
        assert!(answer.units > 0, "{application:?}");
        assert_eq!(application.sequential(application.small()), answer, "{application:?}");
        let (sizes, multiple) = application.sizes();
        let size = application.small().size;
        assert!(sizes.contains(&size) && size.is_multiple_of(multiple), "{application:?}");
    }
}

#[test]
fn a_grain_into_which_an_element_does_not_fit_whole_is_refused() {
    let given = |application: Application, grain: u32| -> Rule {
        let (application, grain) = (Some(application), Some(grain));
        DsmWork { application, grain, requests: None, ..DsmWork::of(0) }.check(2)
    };
    for application in Application::ALL {
        let least = application.grain();
        assert_eq!([given(application, least), given(application, 2 * least)], [Ok(()), Ok(())]);
        assert_eq!(given(application, least + 64).is_ok(), least == 64, "{application:?}");
    }
    let why = given(Application::Water, 1_024).expect_err("a molecule has 640 bytes").problem;
    assert_eq!(why, "of water: a multiple of 640, or leave it out");
}
