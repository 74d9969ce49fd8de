//! Candidate mirror directories: terraform's implied ones, and a bounded search.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::{Path, PathBuf},
};

/// Maximum depth of the registry's directory below a root.
const MAX_DEPTH: usize = 3;
/// Maximum number of directories that are read, over all roots.
const MAX_DIRECTORIES: usize = 4000;
/// Maximum number of entries that are read per directory.
const MAX_ENTRIES: usize = 2000;

/// Default search roots of a Unix system.
pub fn default_search_roots(home: Option<&Path>) -> Vec<PathBuf> {
    let fixed = ["/opt", "/usr/share", "/usr/local/share", "/var/lib"].map(PathBuf::from);
    fixed.into_iter().chain(home.map(Path::to_owned)).collect()
}

/// Implied local mirror directories of terraform and tofu.
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

/// Finds directories that contain a directory named like the registry, shallowest first. Bounded in depth and number; each real
/// directory is entered once, so symlink loops end. Lazy: the search stops when the caller has a match.
pub(super) fn search_mirrors<'a>(
    roots: &[PathBuf],
    registry: &'a str,
) -> impl Iterator<Item = PathBuf> + use<'a> {
    let mut queue: VecDeque<(PathBuf, usize)> = roots.iter().map(|root| (root.clone(), 1)).collect();
    let mut entered = BTreeSet::new();
    std::iter::from_fn(move || {
        while entered.len() < MAX_DIRECTORIES
            && let Some((dir, depth)) = queue.pop_front()
        {
            let Ok(real) = dir.canonicalize() else { continue };
            if !entered.insert(real) {
                continue;
            }
            let names = subdirectories(&dir);
            let below =
                names.iter().filter(|name| depth < MAX_DEPTH && *name != registry && !name.starts_with('.'));
            queue.extend(below.map(|name| (dir.join(name), depth + 1)));
            if names.iter().any(|name| name == registry) {
                return Some(dir);
            }
        }
        None
    })
}

/// Subdirectories, including symlinks to directories: a mirror is often one.
fn subdirectories(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let directories = entries.filter(|entry| match entry.file_type() {
        Ok(kind) if kind.is_symlink() => entry.path().is_dir(),
        Ok(kind) => kind.is_dir(),
        Err(_) => false,
    });
    let mut names: Vec<_> = directories.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
