package quota

// Record is record, which only a Transport calls.
var Record = (*Guard).record
