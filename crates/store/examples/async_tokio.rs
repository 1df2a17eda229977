//! Uses a store from tokio: calls that never wait run on the event loop, all others on its threads
//! for blocking work.
//!
//! ```sh
//! cargo run -p tidekv --example async_tokio
//! ```

use tidekv::{Attempt, Bytes, Cached, Commit, Db, Durability, Keyspace, Options};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A handle for asynchronous tasks; cheap to clone, as the handles in it are.
#[derive(Clone)]
struct AsyncStore {
    db: Db,
    keyspace: Keyspace,
}

impl AsyncStore {
    /// Answers from memory on the event loop, and reads storage on another thread.
    async fn get(&self, key: &str) -> Result<Option<Bytes>, Failure> {
        if let Cached::Ready(entry) = self.keyspace.try_get_cached(key)? {
            return Ok(entry.map(|entry| entry.value));
        }
        let (keyspace, key) = (self.keyspace.clone(), key.to_owned());
        Ok(tokio::task::spawn_blocking(move || keyspace.get(key)).await??)
    }

    /// A buffered write: on the event loop, unless it would have to wait.
    async fn put(&self, key: &str, value: &str) -> Result<(), Failure> {
        let mut transaction = self.db.transaction();
        transaction.put(&self.keyspace, key, value);
        if transaction.try_commit()? == Attempt::Done {
            return Ok(());
        }
        // Nothing was written. Without reads there are no conflicts: another writer is committing,
        // or memory has no room. A thread that may wait does it.
        let (keyspace, key, value) = (self.keyspace.clone(), key.to_owned(), value.to_owned());
        Ok(tokio::task::spawn_blocking(move || keyspace.put(key, value)).await??)
    }

    /// A write that survives a power cut. It waits for storage, so it runs on another thread; the
    /// store syncs once for all writers that wait at the same time.
    async fn put_synced(&self, key: &str, value: &str) -> Result<Commit, Failure> {
        let mut transaction = self.db.transaction();
        transaction.put(&self.keyspace, key, value);
        let commit = move || transaction.commit(Durability::Sync);
        Ok(tokio::task::spawn_blocking(commit).await??)
    }
}

async fn work(store: AsyncStore) -> Result<(), Failure> {
    let tasks: Vec<_> = (0..32)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let key = format!("key-{n:02}");
                store.put(&key, "first").await?;
                store.put(&key, "second").await?;
                store.get(&key).await
            })
        })
        .collect();
    for task in tasks {
        let value = task.await??.ok_or("the key is missing")?;
        assert_eq!(value, "second");
    }
    assert_eq!(store.put_synced("last", "synced").await?, Commit::Done);
    assert_eq!(store.get("last").await?.ok_or("the key is missing")?, "synced");
    assert_eq!(store.get("absent").await?, None);
    Ok(())
}

pub(crate) fn run() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    runtime.block_on(async {
        let path = directory.path().to_owned();
        let options = Options::new().memory_bytes(64 << 20);
        // Opening reads files: also on a thread that may wait.
        let db = tokio::task::spawn_blocking(move || Db::open(path, options)).await??;
        let keyspace = db.keyspace("default")?;
        work(AsyncStore { db: db.clone(), keyspace: keyspace.clone() }).await?;
        println!("{} keys written and read by 32 tasks", keyspace.iter().count());
        assert_eq!(keyspace.iter().count(), 33);
        tokio::task::spawn_blocking(move || db.close()).await??;
        Ok(())
    })
}

fn main() -> Result<(), Failure> {
    run()
}
