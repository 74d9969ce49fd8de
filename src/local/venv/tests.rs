//! Cold caches, with something in the place of python that counts.

use std::{fs, sync::Mutex};

use super::*;

/// Needs nothing but a shell.
fn process_env(cache: &Path, more: &[(&str, &str)]) -> ProcessEnv {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let base = here.join("src/local/venv/fake-python").display().to_string();
    let (count, path) = (cache.join("count").display().to_string(), cache.display().to_string());
    let all = [("PATH", "/usr/bin:/bin"), ("CAPT_CACHE", &path), ("CAPT_PYTHON", &base), ("COUNT", &count)];
    let env = all.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ProcessEnv { env, cwd: here.to_owned(), exe: PathBuf::from("capt") }
}

fn made(cache: &Path) -> usize {
    fs::read_to_string(cache.join("count")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn of_two_that_find_a_cold_cache_one_installs_and_the_other_waits() {
    let cache = tempfile::tempdir().unwrap();
    let process_env = process_env(cache.path(), &[]);
    let heard = Mutex::new(Vec::new());
    let tell = |text: &str| heard.lock().unwrap().push(text.to_owned());
    let (one, two) = tokio::join!(ensure_python(&process_env, tell), ensure_python(&process_env, tell));
    assert_eq!(one.unwrap(), two.unwrap());
    assert_eq!(made(cache.path()), 1);
    let heard = heard.into_inner().unwrap();
    let count = |word: &str| heard.iter().filter(|text| text.starts_with(word)).count();
    assert_eq!((count("installing"), count("waiting for another capt")), (1, 1), "{heard:?}");

    ensure_python(&process_env, |text| panic!("nothing is slow any more: {text}")).await.unwrap();
    assert_eq!(made(cache.path()), 1);
}

#[tokio::test]
async fn an_installation_that_fails_says_what_to_do_and_is_tried_again() {
    let cache = tempfile::tempdir().unwrap();
    let error = ensure_python(&process_env(cache.path(), &[("OFFLINE", "yes")]), |_| {})
        .await
        .unwrap_err()
        .to_string();
    for text in ["cannot install moto", "network", "CAPT_LOCAL_AWS_PYTHON", "No matching distribution"] {
        assert!(error.contains(text), "{error}");
    }
    ensure_python(&process_env(cache.path(), &[]), |_| {}).await.unwrap();
    assert_eq!(made(cache.path()), 2);
}
