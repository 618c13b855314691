// tasks.go - goroutines: yielding, starting, sleeping.
package main

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// yield lets `tasks` goroutines draw from one counter, as weft_yield.c does. One P runs them, so a
// plain counter will do.
func yield(count, tasks int) (string, error) {
	var drawn, warm, end int64
	var t0, t1 time.Duration
	warm = int64(tasks)*3 + 1000
	end = warm + int64(count)
	var all sync.WaitGroup
	all.Add(tasks)
	for i := 0; i < tasks; i++ {
		go func() {
			defer all.Done()
			for {
				mine := drawn
				drawn = mine + 1
				if mine == warm {
					t0 = cpuTime()
				} else if mine >= end {
					if mine == end {
						t1 = cpuTime()
					}
					return
				}
				runtime.Gosched()
			}
		}()
	}
	all.Wait()
	return spanPerOp("ns_per_yield", t1-t0, count), nil
}

func spawn(count, size int) (string, error) {
	var all sync.WaitGroup
	batch := func() {
		all.Add(size)
		for i := 0; i < size; i++ {
			go all.Done()
		}
		all.Wait()
	}
	batches := count / size
	for i := 0; i < batches/20+2; i++ {
		batch()
	}
	t0 := cpuTime()
	for i := 0; i < batches; i++ {
		batch()
	}
	return spanPerOp("ns_per_task", cpuTime()-t0, batches*size), nil
}

func million(count int) (string, error) {
	var asleep, awake int64
	var last time.Time
	done := make(chan struct{})
	residentBefore, tablesBefore := memory()
	t0, cpu0 := time.Now(), cpuTime()
	until := t0.Add((500*time.Millisecond + time.Duration(count)*12*time.Microsecond) * slack())
	for i := 0; i < count; i++ {
		go func() {
			atomic.AddInt64(&asleep, 1)
			time.Sleep(time.Until(until))
			if atomic.AddInt64(&awake, 1) == int64(count) {
				last = time.Now()
				close(done)
			}
		}()
		if i%1000 == 999 {
			runtime.Gosched()
		}
	}
	for atomic.LoadInt64(&asleep) < int64(count) {
		runtime.Gosched()
	}
	t1, cpu1 := time.Now(), cpuTime()
	if t1.After(until) {
		return "", errLate
	}
	resident, tables := memory()
	<-done
	return strings.Join([]string{
		perOp("resident_bytes_per_task", resident-residentBefore, count),
		perOp("page_table_bytes_per_task", tables-tablesBefore, count),
		spanPerOp("spawn_cpu_ns_per_task", cpu1-cpu0, count),
		spanPerOp("wake_cpu_ns_per_task", cpuTime()-cpu1, count),
		spanPerOp("spawn_ms", t1.Sub(t0), 1000000),
		spanPerOp("wake_ms", last.Sub(until), 1000000),
	}, " "), nil
}
