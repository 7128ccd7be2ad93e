package ledgertest

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestModelOfAHistory tests histories that CheckHistory accepts and rejects.
func TestModelOfAHistory(t *testing.T) {
	for _, history := range []struct {
		name string
		want porcupine.CheckResult
		ops  []Operation
	}{
		{"one after the other", porcupine.Ok, []Operation{
			{Call: 1, Return: 2, Spend: true, Units: 60, Granted: true},
			{Call: 3, Return: 4, Spend: true, Units: 1, Remaining: 0},
			{Call: 5, Return: 6, Units: -1},
			{Call: 7, Return: 8, Spend: true, Units: 1, Granted: true}}},
		{"granted beyond the limit", porcupine.Illegal, []Operation{
			{Call: 1, Return: 3, Spend: true, Units: 60, Granted: true},
			{Call: 2, Return: 4, Spend: true, Units: 1, Granted: true}}},
		{"refused what fits", porcupine.Illegal, []Operation{
			{Call: 1, Return: 2, Spend: true, Units: 50, Granted: true},
			{Call: 3, Return: 4, Spend: true, Units: 10, Remaining: 10}}},
		{"refused before what fills it returned", porcupine.Ok, []Operation{
			{Call: 1, Return: 9, Spend: true, Units: 60, Granted: true},
			{Call: 3, Return: 4, Spend: true, Units: 10, Remaining: 0}}},
		{"refused after units came back", porcupine.Illegal, []Operation{
			{Call: 1, Return: 2, Spend: true, Units: 60, Granted: true},
			{Call: 3, Return: 4, Units: -60},
			{Call: 5, Return: 6, Spend: true, Units: 1, Remaining: 0}}},
		{"a wrong remainder", porcupine.Illegal, []Operation{
			{Call: 1, Return: 2, Spend: true, Units: 58, Granted: true},
			{Call: 3, Return: 4, Spend: true, Units: 3, Remaining: 1}}},
	} {
		if got := linearizable(history.ops); got != history.want {
			t.Errorf("%s: %s; want %s", history.name, got, history.want)
		}
	}
}
