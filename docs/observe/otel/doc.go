// Package otel shows how OpenTelemetry's spans are put around and inside a guarded
// client: see its example. It is a module of its own, so that a guard does not
// depend on OpenTelemetry.
package otel
