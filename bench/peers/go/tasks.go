// tasks.go - goroutines: yielding, starting, sleeping.
package main

import (
	"errors"
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
	var t0, t1 time.Time
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
					t0 = time.Now()
				} else if mine >= end {
					if mine == end {
						t1 = time.Now()
					}
					return
				}
				runtime.Gosched()
			}
		}()
	}
	all.Wait()
	return spanPerOp("ns_per_yield", t1.Sub(t0), count), nil
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
	t0 := time.Now()
	for i := 0; i < batches; i++ {
		batch()
	}
	return spanPerOp("ns_per_task", time.Since(t0), batches*size), nil
}

func million(count int) (string, error) {
	var asleep, awake int64
	var last time.Time
	done := make(chan struct{})
	residentBefore, tablesBefore := memory()
	t0 := time.Now()
	until := t0.Add(500*time.Millisecond + time.Duration(count)*12*time.Microsecond)
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
	t1 := time.Now()
	if t1.After(until) {
		return "", errors.New("too slow: some were woken before the last slept")
	}
	resident, tables := memory()
	<-done
	return strings.Join([]string{
		perOp("resident_bytes_per_task", resident-residentBefore, count),
		perOp("page_table_bytes_per_task", tables-tablesBefore, count),
		spanPerOp("spawn_ns_per_task", t1.Sub(t0), count),
		spanPerOp("wake_ns_per_task", last.Sub(until), count),
	}, " "), nil
}
