use super::*;

fn rank(n: u32) -> Rank {
    Rank::from_index(n)
}

fn name(text: &str) -> Path {
    Path::new(text).unwrap()
}

fn listed(names: &Names) -> Vec<String> {
    let (list, more) = names.list(&Path::default(), None, 100).unwrap();
    assert!(!more);
    list.iter().map(|entry| entry.name.to_string()).collect()
}

const LAYOUT: Distribution = Distribution::single(0);

#[test]
fn a_name_stands_for_one_file_and_no_handle_comes_again() {
    let mut names = Names::default();
    let (first, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
    assert_eq!(names.create(0, rank(1), name("a"), LAYOUT), Err(Refusal::Exists));
    assert_eq!(names.open(rank(1), &name("b")), Err(Refusal::NotFound));
    assert_eq!(names.unlink(&name("a")).map(|(handle, _)| handle), Ok(first));
    assert!(names.unused().is_empty(), "open at n0");
    let (second, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
    assert_ne!(first, second);
    assert_eq!(names.open(rank(1), &name("a")), Ok((second, LAYOUT)));
}

#[test]
fn an_unlinked_file_lives_until_its_last_close() {
    let mut names = Names::default();
    let (handle, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
    names.open(rank(1), &name("a")).unwrap();
    names.unlink(&name("a")).unwrap();
    assert!(names.unused().is_empty());
    assert_eq!(names.close(rank(0), handle, false), Ok(()));
    assert_eq!(names.close(rank(0), handle, false), Err(Refusal::Stale), "closed already");
    assert!(names.unused().is_empty(), "open at n1");
    names.forget(rank(1));
    assert_eq!(names.unused(), [Change::Ending { handle }]);
    assert!(names.unused().is_empty(), "told once");
    assert_eq!(names.close(rank(1), handle, false), Err(Refusal::Stale));
    assert_eq!(names.open_files(), 0);
}

/// A server may be down that is to remove its object, and its disk may have failed.
#[test]
fn a_file_whose_objects_are_being_removed_costs_no_later_batch_a_look() {
    let mut names = Names::default();
    let (handle, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
    names.unlink(&name("a")).unwrap();
    names.forget(rank(0));
    assert_eq!(names.unused(), [Change::Ending { handle }]);
    assert_eq!(names.unlinked().collect::<Vec<_>>(), [handle], "it may be taken back");
    assert_eq!(names.remove_if_ending(handle), Some(Gone { handle, layout: LAYOUT }));
    assert_eq!(names.unlinked().next(), None);
    assert!(names.knows(handle), "until all of its servers have removed theirs");
}

#[test]
fn in_its_next_life_a_home_believes_who_has_not_told_yet_that_it_has_a_file_open() {
    let mut names = Names::default();
    let (handle, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
    names.forget(rank(0));
    names.ask([rank(1)].into_iter());
    assert_eq!(names.place(rank(1), handle, (10, 0)).map(|(at, _)| at), Ok(0));
    assert_eq!(names.place(rank(2), handle, (10, 0)), Err(Refusal::Stale), "it was not asked");
    names.heard(rank(1), &[], false);
    assert_eq!(
        names.place(rank(1), handle, (10, 0)),
        Err(Refusal::Stale),
        "it has told, and did not name it"
    );
}

#[test]
fn in_its_next_life_a_home_ends_no_file_before_it_has_heard_who_has_it_open() {
    let mut names = Names::default();
    let (handle, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
    names.forget(rank(0));
    names.ask([rank(1), rank(2)].into_iter());
    names.unlink(&name("a")).unwrap();
    assert!(names.unused().is_empty());
    names.heard(rank(1), &[(handle, 2)], true);
    assert_eq!(
        names.close(rank(1), handle, true),
        Ok(()),
        "closed after it has told, and before it has told all"
    );
    names.heard(rank(1), &[], false);
    assert_eq!(names.close(rank(2), handle, true), Ok(()), "closed before it was asked");
    names.heard(rank(2), &[], false);
    assert!(names.unused().is_empty(), "n1 has it open");
    assert_eq!(names.close(rank(1), handle, true), Ok(()));
    assert_eq!(names.unused(), [Change::Ending { handle }]);
}

#[test]
fn a_change_that_found_no_room_is_taken_back() {
    let mut names = Names::default();
    let (kept, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
    let (_, made) = names.create(0, rank(0), name("b"), LAYOUT).unwrap();
    let (handle, unlinked) = names.unlink(&name("a")).unwrap();
    names.undo(&unlinked, Some(handle));
    names.undo(&made, None);
    assert_eq!(listed(&names), ["a"]);
    assert_eq!(names.open(rank(1), &name("a")), Ok((kept, LAYOUT)));
}

#[test]
fn a_file_that_is_renamed_takes_the_place_of_another_one_which_lives_until_its_last_close() {
    let mut names = Names::default();
    let (new, _) = names.create(0, rank(0), name("new"), LAYOUT).unwrap();
    let (old, _) = names.create(0, rank(0), name("old"), LAYOUT).unwrap();
    let (replaced, change) = names.rename(name("new"), name("old"), true).unwrap().expect("a change");
    assert_eq!((replaced, listed(&names)), (Some(old), vec!["old".to_string()]));
    assert_eq!(names.open(rank(1), &name("old")), Ok((new, LAYOUT)));
    assert!(names.unused().is_empty(), "open at n0");
    names.undo(&change, replaced);
    assert_eq!(listed(&names), ["new", "old"]);
    names.close(rank(0), old, false).unwrap();
    assert!(names.unused().is_empty(), "it has its name again");
    assert_eq!(names.rename(name("old"), name("old"), false), Ok(None), "nothing changes");
    assert_eq!(names.rename(name("none"), name("none"), true), Err(Refusal::NotFound));
    assert_eq!(names.rename(name("new"), name("old"), false), Err(Refusal::Exists));
    names.rename(name("new"), name("old"), true).unwrap();
    assert_eq!(names.unused(), [Change::Ending { handle: old }]);
}

#[test]
fn directories_are_made_moved_and_removed_and_each_of_it_can_be_taken_back() {
    let mut names = Names::default();
    names.make_directory(name("a")).unwrap();
    assert_eq!(names.make_directory(name("a")), Err(Refusal::Exists));
    assert_eq!(names.make_directory(name("b/c")), Err(Refusal::NotFound));
    let (file, _) = names.create(0, rank(0), name("a/f"), LAYOUT).unwrap();
    assert_eq!(names.remove_directory(name("a")), Err(Refusal::NotEmpty));
    assert_eq!(names.remove_directory(name("a/f")), Err(Refusal::NotDirectory));
    assert_eq!(names.unlink(&name("a")), Err(Refusal::IsDirectory));
    let (_, change) = names.rename(name("a"), name("b"), false).unwrap().expect("a change");
    assert_eq!(names.open(rank(0), &name("b/f")).map(|(handle, _)| handle), Ok(file));
    names.undo(&change, None);
    assert_eq!(names.open(rank(0), &name("a/f")).map(|(handle, _)| handle), Ok(file));
    names.unlink(&name("a/f")).unwrap();
    let change = names.remove_directory(name("a")).unwrap();
    assert!(listed(&names).is_empty());
    names.undo(&change, None);
    assert_eq!(listed(&names), ["a"]);
}

#[test]
fn a_place_that_found_no_room_is_given_out_again_and_one_that_found_some_is_not() {
    let mut names = Names::default();
    let (handle, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
    names.open(rank(1), &name("a")).unwrap();
    let (_, change) = names.place(rank(0), handle, (10, 0)).unwrap();
    names.undo(&change, None);
    // It has nothing there, and closes the file.
    names.close(rank(0), handle, false).unwrap();
    names.cut(rank(1), handle).unwrap();
    names.is_cut(handle);
    assert_eq!(names.place(rank(1), handle, (10, 0)).map(|(at, _)| at), Ok(0));
    // A cut that found no room takes nobody's place.
    let (_, change) = names.cut(rank(1), handle).unwrap();
    names.undo(&change, None);
    names.is_cut(handle);
    names.cut(rank(1), handle).unwrap();
    names.is_cut(handle);
    assert_eq!(names.place(rank(1), handle, (10, 0)).map(|(at, _)| at), Ok(10));
}

/// It would begin where the next one does, and who gives the one back would give back the other.
#[test]
fn a_place_has_a_byte_at_least() {
    let mut names = Names::default();
    let (handle, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
    assert_eq!(names.place(rank(0), handle, (0, 5)), Err(Refusal::Position));
    assert_eq!(names.place(rank(0), handle, (1, 5)).map(|(at, _)| at), Ok(5));
}

/// A program that makes a file, removes its name and keeps it open has a temporary file, and there may be many of these.
#[test]
fn files_that_stay_open_without_a_name_cost_no_batch_a_look() {
    let mut names = Names::default();
    let made: Vec<Handle> = (0..100)
        .map(|n| {
            let (handle, _) = names.create(0, rank(0), name(&format!("f{n}")), LAYOUT).unwrap();
            names.unlink(&name(&format!("f{n}"))).unwrap();
            handle
        })
        .collect();
    names.close(rank(0), made[7], false).unwrap();
    assert_eq!(names.idle.iter().collect::<Vec<_>>(), [&made[7]]);
    let ending = Change::Ending { handle: made[7] };
    assert_eq!(names.unused(), std::slice::from_ref(&ending));
    assert!(names.idle.is_empty());
    names.undo(&ending, None);
    assert_eq!(names.unused(), [ending], "what said so found no room");
}

/// A home looks at those alone that were closed or lost their names since it last did.
#[test]
fn a_file_without_a_name_ends_as_soon_as_nobody_has_it_open_whatever_is_done_and_taken_back() {
    let (mut names, mut files) = (Names::default(), BTreeSet::new());
    let (mut done, mut state) = (Vec::new(), 11_u32);
    let mut below = |n: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % n
    };
    let (mut ended, mut again) = (0, 0);
    for _ in 0..5_000 {
        let (path, to) = (name(&format!("f{}", below(8))), name(&format!("f{}", below(8))));
        let (client, any) = (rank(below(3)), files.iter().nth(below(8) as usize).copied());
        match below(9) {
            0 | 1 => {
                let made = names.create(0, client, path, LAYOUT);
                files.extend(made.iter().map(|(handle, _)| *handle));
                done.extend(made.map(|(_, change)| (change, None)));
            }
            2 => done.extend(names.unlink(&path).map(|(handle, change)| (change, Some(handle)))),
            3 => {
                done.extend(names.rename(path, to, true).ok().flatten().map(|(lost, change)| (change, lost)))
            }
            4 => {
                if let Some((change, lost)) = done.pop() {
                    names.undo(&change, lost);
                    again += usize::from(matches!(change, Change::Ending { .. }));
                }
            }
            5 => drop(names.open(client, &path)),
            6 => any.into_iter().for_each(|handle| _ = names.close(client, handle, false)),
            7 if below(20) == 0 => names.forget(client),
            7 => {
                let all = names.unused();
                ended += all.len();
                done.extend(all.into_iter().map(|change| (change, None)));
            }
            _ => {
                // All that was done is durable.
                for (change, _) in done.drain(..) {
                    let Change::Ending { handle } = change else { continue };
                    names.remove_if_ending(handle);
                    names.apply(&Change::Ended { handle });
                }
            }
        }
        files.retain(|handle| names.knows(*handle));
        let ends = |inode: &Inode| inode.opens.is_empty() && !inode.ending;
        let all: Vec<Change> = names
            .unlinked()
            .filter(|handle| names.inodes.get(handle).is_some_and(ends))
            .map(|handle| Change::Ending { handle })
            .collect();
        assert_eq!(names.clone().unused(), all);
    }
    assert!(ended > 100 && again > 10, "{ended} ended, {again} of them once more");
}

#[test]
fn files_without_a_name_are_kept_apart_from_all_others_whatever_is_done_and_taken_back() {
    let mut names = Names::default();
    let (mut done, mut state) = (Vec::new(), 7_u32);
    let mut below = |n: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % n
    };
    for _ in 0..2_000 {
        let (path, to) = (name(&format!("f{}", below(8))), name(&format!("f{}", below(8))));
        match below(6) {
            0 | 1 => done.extend(names.create(0, rank(0), path, LAYOUT).map(|(_, change)| (change, None))),
            2 => done.extend(names.unlink(&path).map(|(handle, change)| (change, Some(handle)))),
            3 => {
                done.extend(names.rename(path, to, true).ok().flatten().map(|(lost, change)| (change, lost)))
            }
            4 => done.pop().iter().for_each(|(change, lost)| names.undo(change, *lost)),
            _ => {
                done.clear();
                names.forget(rank(0));
                for change in names.unused() {
                    let Change::Ending { handle } = change else { panic!("{change:?}") };
                    names.apply(&Change::Ended { handle });
                }
            }
        }
        let linked: BTreeSet<Handle> = names.files().map(|(_, handle)| handle).collect();
        let unlinked: Vec<Handle> =
            names.inodes.keys().copied().filter(|handle| !linked.contains(handle)).collect();
        assert_eq!(names.unlinked().collect::<Vec<_>>(), unlinked);
    }
}
