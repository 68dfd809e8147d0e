// Package aggregate runs aggregation pipelines over batches of raw documents. It supports
// $match $project $addFields $set $unset $replaceRoot $replaceWith $sort $limit $skip
// $group $count $unwind $sortByCount $sample. Any other stage is an error that names the
// stage. Change streams are in package changestream.
package aggregate
