package disk

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
)

// Pebble's settings.
const (
	maxMemTable         = 32 << 20
	minMemTable         = 1 << 20
	memTables           = 4 // the number of unflushed memtables at which writes wait
	memTableShare       = 4 // a memtable takes at most 1/memTableShare of the memory
	baseLevelSize       = 64 << 20
	firstLevelFile      = 4 << 20
	bloomBits           = 10
	compactAtL0, stopL0 = 4, 24
)

// Config is what all openings of one directory have in common.
type Config struct {
	// memory bounds the block cache and the memtables together, in bytes.
	memory int64
	Cache  *pebble.Cache
	Files  *pebble.FileCache // if nil, each opening has its own
	logger *slog.Logger
	// span determines which files of Pebble have which keys.
	span func(start []byte) (pebble.SpanPolicy, []byte, error)
}

// NewConfig returns a configuration. It creates the caches, which release gives up.
// Openings have at most maxOpenFiles tables open at a time, or Pebble's default number if
// that is zero.
func NewConfig(memory int64, maxOpenFiles int, logger *slog.Logger, span func(start []byte) (pebble.SpanPolicy, []byte, error)) *Config {
	c := &Config{memory: memory, Cache: pebble.NewCache(memory), logger: logger, span: span}
	if maxOpenFiles > 0 {
		// Pebble's own option MaxOpenFiles is never less than about 70.
		c.Files = pebble.NewFileCache(min(runtime.GOMAXPROCS(0), maxOpenFiles), maxOpenFiles)
	}
	return c
}

// Release gives up the references to the caches. Openings that still use them keep them.
func (c *Config) Release() {
	c.Cache.Unref()
	if c.Files != nil {
		c.Files.Unref()
	}
}

// MemTableSize returns the size of a memtable in bytes.
func (c *Config) MemTableSize() uint64 {
	return uint64(min(max(c.memory/memTableShare, minMemTable), maxMemTable))
}

// options returns Pebble's options for e. They are the result of measurements with
// a load that mostly appends to a log. Memtables count towards the cache's size, so
// Memory bounds both.
func (c *Config) options(e *Pebble) *pebble.Options {
	o := &pebble.Options{
		FS:                          e.disk,
		FormatMajorVersion:          pebbleFormat,
		Cache:                       c.Cache,
		FileCache:                   c.Files,
		MemTableSize:                e.memTable,
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       compactAtL0,
		L0StopWritesThreshold:       math.MaxInt, // the sequencer itself waits; see Pebble.refusal
		LBaseMaxBytes:               baseLevelSize,
		CompactionConcurrencyRange:  func() (lower, upper int) { return 1, 2 },
		Logger:                      pebbleLogger{c.logger},
	}
	// Without this listener, a damaged table found by background work would end the
	// process. With it, a read of the table returns a *CorruptError, and the rest of the
	// store stays readable.
	o.EventListener = &pebble.EventListener{
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			// The form %+v of the error has a stack, by which a log would break one cause into
			// a page of lines.
			c.logger.Error("store file damaged", slog.String("path", i.Path), slog.String("error", i.Details.Error()))
			c.logger.Debug("details of the damage", slog.String("path", i.Path), slog.String("details", fmt.Sprintf("%+v", i.Details)))
		},
	}
	e.listen(o.EventListener)
	o.TargetFileSizes[0] = firstLevelFile
	o.Experimental.SpanPolicyFunc = c.span
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
		o.Levels[i].Compression = func() *block.CompressionProfile { return block.SnappyCompression }
	}
	return o
}

// pebbleLogger passes Pebble's messages to the store's logger.
type pebbleLogger struct{ l *slog.Logger }

func (p pebbleLogger) Infof(format string, args ...any) {
	if p.l.Enabled(context.Background(), slog.LevelDebug) {
		p.l.Debug(fmt.Sprintf(format, args...))
	}
}

func (p pebbleLogger) Errorf(format string, args ...any) { p.l.Error(fmt.Sprintf(format, args...)) }

// Fatalf panics. Pebble calls it when it no longer knows the state of the disk, for
// instance after a failed sync. Fatalf must not return, because no write may be
// acknowledged after that.
func (p pebbleLogger) Fatalf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.l.Error(text)
	panic("store: cannot write to the files: " + text)
}
