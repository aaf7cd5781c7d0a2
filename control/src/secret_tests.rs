//! Secrets and their files.

use super::*;

fn shared(caller: u8) -> Shared {
    Shared { version: 1, coordinator: [1; NONCE], caller: [caller; NONCE] }
}

#[test]
fn a_proof_holds_for_its_secret_its_end_and_its_connection_only() {
    let secret = Secret::of(&[7; 32]);
    let proof = secret.proof(End::Caller, &shared(2));
    assert!(secret.is_proved(End::Caller, &shared(2), &proof));
    assert!(!secret.is_proved(End::Coordinator, &shared(2), &proof), "it would do for its own echo");
    assert!(!secret.is_proved(End::Caller, &shared(3), &proof), "it would do twice");
    assert!(!Secret::of(&[8; 32]).is_proved(End::Caller, &shared(2), &proof));
    assert!(!Secret::none().is_proved(End::Caller, &shared(2), &proof));
    assert!(!secret.is_proved(End::Caller, &shared(2), &proof[..31]));
}

#[test]
fn a_seal_fits_its_message_at_its_place_only() {
    let secret = Secret::of(&[7; 32]);
    let mut maker = secret.seal(End::Caller, &shared(2));
    let mut checker = secret.seal(End::Caller, &shared(2));
    let (first, second) = (maker.make(b"one"), maker.make(b"two"));
    assert!(checker.clone().fits(b"one", &first));
    assert!(!checker.clone().fits(b"two", &second), "a message was left out");
    assert!(!checker.clone().fits(b"onE", &first));
    assert!(!secret.seal(End::Coordinator, &shared(2)).fits(b"one", &first), "sent back to its sender");
    assert!(checker.fits(b"one", &first) && !checker.clone().fits(b"one", &first), "played again");
    assert!(checker.fits(b"two", &second));
}

#[cfg(unix)]
mod files {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A file that goes with the test.
    struct File(PathBuf);

    impl File {
        fn new(name: &str, text: &str, mode: u32) -> File {
            let path = std::env::temp_dir().join(format!("weft-secret-{}-{name}", std::process::id()));
            std::fs::write(&path, text).expect("a file");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its mode");
            File(path)
        }

        fn line(&self) -> String {
            let line = Secret::read(&self.0).expect_err("it cannot be used").to_string();
            line.replace(&self.0.display().to_string(), "FILE")
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_secret_is_read_without_the_line_end() {
        let file = File::new("good", &format!("{}\n", "x".repeat(44)), 0o600);
        let secret = Secret::read(&file.0).expect("it is good");
        assert_eq!(secret.0, "x".repeat(44).as_bytes());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }

    #[test]
    fn what_is_wrong_with_a_secret_is_said_in_one_line_with_what_to_do() {
        let long = "x".repeat(44);
        let cases = [
            (
                File::new("open", &long, 0o644),
                "the secret FILE is open to others (mode 0644): chmod 600 FILE",
            ),
            (
                File::new("group", &long, 0o620),
                "the secret FILE is open to others (mode 0620): chmod 600 FILE",
            ),
            (
                File::new("short", "abc\n", 0o600),
                "the secret FILE has 3 bytes and needs 32: (umask 077; head -c 32 /dev/urandom | base64 > FILE)",
            ),
            (
                File::new("long", &"x".repeat(5_000), 0o600),
                "the secret FILE has more than 4096 bytes: is it the right file?",
            ),
        ];
        for (file, line) in cases {
            assert_eq!(file.line(), line);
        }
        let missing = Secret::read(Path::new("/nowhere/secret")).expect_err("there is none").to_string();
        assert_eq!(missing, "the secret /nowhere/secret: No such file or directory (os error 2)");
        let directory =
            Secret::read(Path::new("/")).expect_err("it is open to others, as it should be").to_string();
        assert_eq!(directory, "the secret /: is a directory");
    }
}
