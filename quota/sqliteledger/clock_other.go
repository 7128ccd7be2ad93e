//go:build !linux

package sqliteledger

func isSynced() bool { return true }
