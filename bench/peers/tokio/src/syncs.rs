//! Tokio's means of synchronisation. Where nothing has to wait the operation budget is lifted.
use crate::chans::{bytes_counted, Clock};
use crate::{cpu_ns, per_op, Bench, Outcome};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::{Barrier, Mutex, Notify, OnceCell, RwLock, Semaphore};
use tokio::task::{unconstrained, yield_now};

const BATCH: u64 = 1000;
const TASKS: u64 = 4;
const READS_PER_WRITE: u64 = 10;

const NAMES: [&str; 12] = [
    "mutex", "mutex-x4", "rwlock-read", "rwlock-write", "rwlock-x4", "semaphore", "semaphore-x4",
    "once-get", "once-get-x4", "once-set", "barrier-x4", "notify",
];

async fn play(name: &'static str, c: &mut Clock, count: u64) -> String {
    match name {
        "mutex" => unconstrained(mutex(c, count)).await,
        "mutex-x4" => mutex_shared(c, count).await,
        "rwlock-read" => unconstrained(rwlock_read(c, count)).await,
        "rwlock-write" => unconstrained(rwlock_write(c, count)).await,
        "rwlock-x4" => rwlock_shared(c, count).await,
        "semaphore" => unconstrained(semaphore(c, count)).await,
        "semaphore-x4" => semaphore_shared(c, count).await,
        "once-get" => once_get(c, count),
        "once-get-x4" => once_get_shared(c, count).await,
        "once-set" => once_set(c, count),
        "barrier-x4" => barrier_shared(c, count).await,
        _ => notify(c, count).await,
    }
}

async fn measure(name: &'static str, count: u64, one_cpu: bool) -> Outcome {
    let mut warm = Clock::new(one_cpu, true);
    play(name, &mut warm, count / 20 + 100).await;
    let bytes = bytes_counted();
    let line = play(name, &mut Clock::new(one_cpu, false), count).await;
    Ok(line + " " + &per_op("bytes_per_op", bytes, warm.operations()))
}

pub fn bench(name: &str, count: u64, one_cpu: bool) -> Option<Bench> {
    let name = name.strip_prefix("sync/")?;
    let known = NAMES.into_iter().find(|known| *known == name)?;
    Some(Box::pin(measure(known, count, one_cpu)))
}

async fn mutex(c: &mut Clock, count: u64) -> String {
    let mutex = Mutex::new(0u64);
    c.begin();
    for _ in 0..count {
        *mutex.lock().await += 1;
    }
    c.end(count)
}

async fn rwlock_read(c: &mut Clock, count: u64) -> String {
    let lock = RwLock::new(0u64);
    let mut sum = 0;
    c.begin();
    for _ in 0..count {
        sum += *lock.read().await;
    }
    assert_eq!(sum, 0);
    c.end(count)
}

async fn rwlock_write(c: &mut Clock, count: u64) -> String {
    let lock = RwLock::new(0u64);
    c.begin();
    for _ in 0..count {
        *lock.write().await += 1;
    }
    c.end(count)
}

async fn semaphore(c: &mut Clock, count: u64) -> String {
    let semaphore = Semaphore::new(2);
    c.begin();
    for _ in 0..count {
        drop(semaphore.acquire().await.unwrap());
    }
    c.end(count)
}

fn once_get(c: &mut Clock, count: u64) -> String {
    let cell = OnceCell::new_with(Some(7u64));
    let mut sum = 0;
    c.begin();
    for _ in 0..count {
        sum += *std::hint::black_box(&cell).get().unwrap();
    }
    assert_eq!(sum, 7 * count);
    c.end(count)
}

fn once_set(c: &mut Clock, count: u64) -> String {
    let mut cells: Vec<OnceCell<u64>> = (0..BATCH).map(|_| OnceCell::new()).collect();
    c.begin();
    let mut done = 0;
    while done < count {
        let t = cpu_ns();
        for cell in cells.iter_mut() {
            *cell = OnceCell::new();
            cell.set(7).unwrap();
        }
        c.add(cpu_ns() - t);
        done += BATCH;
    }
    c.end(done)
}

async fn pass(one_cpu: bool) {
    if one_cpu {
        yield_now().await;
    }
}

/// Runs a task four times.
async fn four<F>(c: &mut Clock, count: u64, task: impl Fn(u64) -> F) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let per = count / TASKS;
    c.begin();
    let handles: Vec<_> = (0..TASKS).map(|_| tokio::spawn(task(per))).collect();
    for handle in handles {
        handle.await.unwrap();
    }
    c.end(per * TASKS)
}

async fn mutex_shared(c: &mut Clock, count: u64) -> String {
    let mutex = Arc::new(Mutex::new(0u64));
    let one_cpu = c.one_cpu();
    four(c, count, |per| {
        let mutex = mutex.clone();
        async move {
            for _ in 0..per {
                let mut guard = mutex.lock().await;
                *guard += 1;
                pass(one_cpu).await;
            }
        }
    })
    .await
}

async fn rwlock_shared(c: &mut Clock, count: u64) -> String {
    let lock = Arc::new(RwLock::new(0u64));
    let one_cpu = c.one_cpu();
    four(c, count, |per| {
        let lock = lock.clone();
        async move {
            for i in 0..per {
                if i % READS_PER_WRITE == 0 {
                    let mut guard = lock.write().await;
                    *guard += 1;
                    pass(one_cpu).await;
                } else {
                    let _guard = lock.read().await;
                    pass(one_cpu).await;
                }
            }
        }
    })
    .await
}

async fn semaphore_shared(c: &mut Clock, count: u64) -> String {
    let semaphore = Arc::new(Semaphore::new(2));
    let one_cpu = c.one_cpu();
    four(c, count, |per| {
        let semaphore = semaphore.clone();
        async move {
            for _ in 0..per {
                let _permit = semaphore.acquire().await.unwrap();
                pass(one_cpu).await;
            }
        }
    })
    .await
}

async fn once_get_shared(c: &mut Clock, count: u64) -> String {
    let cell = Arc::new(OnceCell::new_with(Some(7u64)));
    four(c, count, |per| {
        let cell = cell.clone();
        async move {
            let mut sum = 0;
            for _ in 0..per {
                sum += *std::hint::black_box(&*cell).get().unwrap();
            }
            assert_eq!(sum, 7 * per);
        }
    })
    .await
}

async fn barrier_shared(c: &mut Clock, count: u64) -> String {
    let barrier = Arc::new(Barrier::new(TASKS as usize));
    four(c, count, |per| {
        let barrier = barrier.clone();
        async move {
            for _ in 0..per {
                barrier.wait().await;
            }
        }
    })
    .await
}

async fn notify(c: &mut Clock, count: u64) -> String {
    let there = Arc::new(Notify::new());
    let back = Arc::new(Notify::new());
    let (in_task, out_task) = (there.clone(), back.clone());
    let task = tokio::spawn(async move {
        for _ in 0..count {
            in_task.notified().await;
            out_task.notify_one();
        }
    });
    c.begin();
    for _ in 0..count {
        there.notify_one();
        back.notified().await;
    }
    let line = c.end(count);
    task.await.unwrap();
    line
}
