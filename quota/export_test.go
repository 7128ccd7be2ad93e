package quota

// Record exports record, which only a Transport calls.
var Record = (*Guard).record
