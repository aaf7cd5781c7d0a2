//! The applications by themselves; model-tests/tests/all/dsm runs them on the simulated fabric.

use super::*;
use crate::fields::Rule;
use crate::system::System;
use crate::systems::dsm::SharedMemory;
use crate::systems::dsm::workload::DsmWork;
use weft_protocols::transport::{MeshConfig, Rank};

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

/// A grid of rows of 16 KiB and more was told that messages carry no more than 8 KiB, at its first call.
#[test]
fn messages_over_several_rails_carry_the_minipages_of_every_input() {
    let carried = |application, size, grain| {
        let work = DsmWork { application: Some(application), size, grain, requests: None, ..DsmWork::of(0) };
        assert_eq!(work.check(2), Ok(()));
        let mut config = MeshConfig::new(Rank::from_index(0), Vec::new());
        config.other_rails = vec![config.peers.clone()];
        SharedMemory::mesh(&work, &mut config);
        config.max_message
    };
    assert!(carried(Application::Sor, Some(8_192), None) > 16_384);
    assert!(carried(Application::Ocean, Some(4_096), None) > 32_768);
    assert!(carried(Application::Lu, None, None) > 8_192);
    assert!(carried(Application::Is, None, Some(1 << 20)) > 1 << 20);
}
