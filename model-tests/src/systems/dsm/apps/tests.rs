//! The applications by themselves; model-tests/tests/all/dsm runs them on the simulated fabric.

use super::*;

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
