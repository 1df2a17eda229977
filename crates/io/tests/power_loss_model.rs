//! Random operations in one directory compared with the simplest model of a disk: names and bytes
//! each have a visible and a durable side, and a sync copies one to the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tidekv_io::{Access, MemoryStorage, Storage, Tear};

#[derive(Debug, Clone)]
enum Step {
    Create(u8),
    Append(u8, Vec<u8>),
    Sync(u8),
    Rename(u8, u8),
    Link(u8, u8),
    Remove(u8),
    SyncDirectory,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..5_u8;
    prop_oneof![
        4 => name.clone().prop_map(Step::Create),
        6 => (name.clone(), prop::collection::vec(1..=255_u8, 1..20)).prop_map(|(n, b)| Step::Append(n, b)),
        3 => name.clone().prop_map(Step::Sync),
        3 => (name.clone(), name.clone()).prop_map(|(a, b)| Step::Rename(a, b)),
        1 => (name.clone(), name.clone()).prop_map(|(a, b)| Step::Link(a, b)),
        2 => name.prop_map(Step::Remove),
        3 => Just(Step::SyncDirectory),
    ]
}

#[derive(Default)]
struct Model {
    /// Visible and durable bytes of each file.
    files: Vec<(Vec<u8>, Vec<u8>)>,
    visible: BTreeMap<u8, usize>,
    durable: BTreeMap<u8, usize>,
}

impl Model {
    /// Applies the step; returns false if it is impossible.
    fn apply(&mut self, step: &Step) -> bool {
        match step {
            Step::Create(name) => {
                let free = !self.visible.contains_key(name);
                if free {
                    self.visible.insert(*name, self.files.len());
                    self.files.push(Default::default());
                }
                free
            }
            Step::Append(name, bytes) => {
                let file = self.visible.get(name).map(|id| &mut self.files[*id]);
                file.map(|file| file.0.extend(bytes)).is_some()
            }
            Step::Sync(name) => {
                let file = self.visible.get(name).map(|id| &mut self.files[*id]);
                file.map(|file| file.1.clone_from(&file.0)).is_some()
            }
            Step::Rename(from, to) => {
                let Some(id) = self.visible.get(from).copied() else { return false };
                if self.visible.get(to) != Some(&id) {
                    self.visible.remove(from);
                    self.visible.insert(*to, id);
                }
                true
            }
            Step::Link(from, to) => {
                let (id, free) = (self.visible.get(from).copied(), !self.visible.contains_key(to));
                match id.filter(|_| free) {
                    Some(id) => self.visible.insert(*to, id).is_none(),
                    None => false,
                }
            }
            Step::Remove(name) => self.visible.remove(name).is_some(),
            Step::SyncDirectory => {
                self.durable = self.visible.clone();
                true
            }
        }
    }
}

fn path(name: u8) -> PathBuf {
    PathBuf::from(format!("/db/{name}"))
}

fn apply(storage: &MemoryStorage, step: &Step) -> tidekv_io::Result<()> {
    let open = |name: u8| storage.open(&path(name), Access::Buffered);
    match step {
        Step::Create(name) => storage.create(&path(*name), Access::Buffered).map(drop),
        Step::Append(name, bytes) => {
            let file = open(*name)?;
            file.write_at(file.len()?, bytes)
        }
        Step::Sync(name) => open(*name)?.sync(),
        Step::Rename(from, to) => storage.rename(&path(*from), &path(*to)),
        Step::Link(from, to) => storage.hard_link(&path(*from), &path(*to)),
        Step::Remove(name) => storage.remove(&path(*name)),
        Step::SyncDirectory => storage.sync_dir(Path::new("/db")),
    }
}

/// The files of a storage by name.
fn look(storage: &MemoryStorage) -> BTreeMap<u8, Vec<u8>> {
    let number = |path: &Path| path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let paths = storage.paths().into_iter();
    paths.map(|path| (number(&path), storage.read_file(&path).unwrap())).collect()
}

fn files_of(
    names: &BTreeMap<u8, usize>,
    bytes: impl Fn(usize) -> Vec<u8>,
) -> BTreeMap<u8, Vec<u8>> {
    names.iter().map(|(name, id)| (*name, bytes(*id))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 300 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn aftermaths_keep_the_durability_contract(steps in prop::collection::vec(step(), 1..40)) {
        let storage = MemoryStorage::new();
        storage.create_dir_all(Path::new("/db")).unwrap();
        storage.sync_dir(Path::new("/")).unwrap();
        let mut model = Model::default();
        for (number, step) in steps.iter().enumerate() {
            prop_assert_eq!(apply(&storage, step).is_ok(), model.apply(step), "{:?}", step);

            let strict = look(&storage.after_power_loss(Tear::DropUnsynced));
            prop_assert_eq!(strict, files_of(&model.durable, |id| model.files[id].1.clone()));
            let lucky = look(&storage.after_power_loss(Tear::KeepUnsynced));
            prop_assert_eq!(&lucky, &files_of(&model.visible, |id| model.files[id].0.clone()));
            prop_assert_eq!(&lucky, &look(&storage));

            let torn = look(&storage.after_power_loss(Tear::Torn { seed: number as u64 }));
            if matches!(step, Step::SyncDirectory) {
                prop_assert!(torn.keys().eq(model.durable.keys()), "names were synced just now");
            }
            for bytes in torn.values() {
                let origin = model.files.iter().any(|(visible, durable)| {
                    bytes.starts_with(durable)
                        && bytes.len() <= visible.len()
                        && bytes.iter().zip(visible).all(|(got, new)| got == new || *got == 0)
                });
                prop_assert!(origin, "{:?} is neither synced bytes nor a part of later ones", bytes);
            }
        }
    }
}
