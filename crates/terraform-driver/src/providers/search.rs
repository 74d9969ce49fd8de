//! Directories that may be mirrors: terraform's implied ones, and a shallow search.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::{Path, PathBuf},
};

/// How deep below a root the registry's directory may lie.
const DEPTH: usize = 3;
/// Directories that are read at most, over all roots.
const DIRECTORIES: usize = 4000;
/// Entries of one directory that are looked at.
const ENTRIES: usize = 2000;

/// The usual roots of a Unix system.
pub fn usual_roots(home: Option<&Path>) -> Vec<PathBuf> {
    let fixed = ["/opt", "/usr/share", "/usr/local/share", "/var/lib"].map(PathBuf::from);
    fixed.into_iter().chain(home.map(Path::to_owned)).collect()
}

/// The directories that terraform and tofu look into by themselves.
pub(super) fn implied_mirrors(env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let home = env.get("HOME").map(PathBuf::from);
    let variable = |name: &str| env.get(name).filter(|value| !value.is_empty());
    let own_data = variable("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| home.as_ref().map(|home| home.join(".local/share")));
    let shared = variable("XDG_DATA_DIRS").map_or("/usr/local/share:/usr/share", String::as_str);
    let data = own_data.into_iter().chain(std::env::split_paths(shared));
    let data: Vec<PathBuf> =
        data.flat_map(|dir| [dir.join("terraform/plugins"), dir.join("opentofu/plugins")]).collect();
    home.map(|home| home.join(".terraform.d/plugins")).into_iter().chain(data).collect()
}

/// Finds directories that hold one named like the registry, the shallowest first. Bounded in depth and in number, and
/// every real directory is entered once, so loops of links end. Lazy: who takes the first one pays for no more.
pub(super) fn search<'a>(roots: &[PathBuf], registry: &'a str) -> impl Iterator<Item = PathBuf> + use<'a> {
    let mut queue: VecDeque<(PathBuf, usize)> = roots.iter().map(|root| (root.clone(), 1)).collect();
    let mut entered = BTreeSet::new();
    std::iter::from_fn(move || {
        while entered.len() < DIRECTORIES
            && let Some((dir, depth)) = queue.pop_front()
        {
            let Ok(real) = dir.canonicalize() else { continue };
            if !entered.insert(real) {
                continue;
            }
            let names = subdirectories(&dir);
            let below =
                names.iter().filter(|name| depth < DEPTH && *name != registry && !name.starts_with('.'));
            queue.extend(below.map(|name| (dir.join(name), depth + 1)));
            if names.iter().any(|name| name == registry) {
                return Some(dir);
            }
        }
        None
    })
}

/// Links to directories count: a mirror is often one.
fn subdirectories(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(ENTRIES);
    let directories = entries.filter(|entry| match entry.file_type() {
        Ok(kind) if kind.is_symlink() => entry.path().is_dir(),
        Ok(kind) => kind.is_dir(),
        Err(_) => false,
    });
    let mut names: Vec<_> = directories.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
